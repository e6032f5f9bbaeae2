package fetcher

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// take does what an answer asks for, partition after partition. The error is of
// the connection: what is wrong with one partition is that partition's.
func (f *fetcher) take(resp *kmsg.FetchResponse, asked map[key]*entry) error {
	// Where to go on for these the leader is asked last: the records of an answer are
	// good until the next request.
	var outOfRange []want
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			e := asked[key{t.TopicID, p.Partition}]
			if e == nil {
				return fmt.Errorf("the answer has partition %d of topic %x, which was not asked for", p.Partition, t.TopicID)
			}
			if w := (want{e, e.at}); protocol.Error(p.ErrorCode) == protocol.ErrOffsetOutOfRange {
				outOfRange = append(outOfRange, w)
			} else {
				f.takePartition(w, p)
			}
			f.lookAt(e)
		}
	}
	for _, w := range outOfRange {
		if err := f.outOfRange(w); err != nil {
			return err
		}
	}
	return nil
}

func (f *fetcher) takePartition(w want, p *kmsg.FetchResponseTopicPartition) {
	if w.at.Throttled {
		f.pool.cfg.Throttle.Add(len(p.RecordBatches))
	}
	switch code := protocol.Error(p.ErrorCode); {
	case code != protocol.None:
		f.failed(w, code)
	case p.DivergingEpoch.EndOffset >= 0:
		f.done(w, w.partition.Truncate(w.at, protocol.LeaderEpoch(p.DivergingEpoch.Epoch), p.DivergingEpoch.EndOffset))
	default:
		records, err := batch.Whole(p.RecordBatches, nil)
		if err == nil {
			w.synced = w.synced && len(records) == 0
			err = w.partition.AppendAsFollower(w.at, records, p.HighWatermark, p.LogStartOffset)
		}
		f.done(w, err)
	}
}

// done takes note of what became of an answer in the replica. A replica that has
// moved on meanwhile is asked for again from where it stands, if at all.
func (f *fetcher) done(w want, err error) {
	switch {
	case err == nil, protocol.CodeOf(err) == protocol.ErrFencedLeaderEpoch:
		w.rested = 0
	case errors.Is(err, protocol.ErrKafkaStorageError):
		w.partition.FailWithDir() // a volume that is only full may have space again
		f.failed(w, err)
	default:
		f.failed(w, err)
	}
}

// failed lets a partition rest.
func (f *fetcher) failed(w want, err error) {
	f.rest(w.entry)
	tp := w.partition.TopicPartition()
	event := f.log.Debug()
	if protocol.IsBug(err) || protocol.CodeOf(err) == protocol.ErrCorruptMessage {
		event = f.log.Error()
	}
	event.Err(err).Str("topic", tp.Topic).Int32("partition", tp.Partition).Int64("offset", w.at.Offset).
		Msg("partition can not be followed now")
}

// outOfRange finds out where the leader's log is. One that starts beyond this
// replica's end has deleted what comes next: the replica starts over there. One
// that ends before it would have said where the logs part, were there any record.
func (f *fetcher) outOfRange(w want) error {
	start, err := f.offset(w, earliest)
	if err != nil {
		return err
	}
	end, err := f.offset(w, latest)
	if err != nil {
		return err
	}
	switch {
	case start < 0 || end < 0: // the leader has changed meanwhile
		f.failed(w, protocol.ErrOffsetOutOfRange)
	case start > w.at.Offset || w.at.LastEpoch < 0 && end < w.at.Offset:
		tp := w.partition.TopicPartition()
		f.log.Warn().Str("topic", tp.Topic).Int32("partition", tp.Partition).Int64("end", w.at.Offset).
			Int64("start", start).Msg("replica starts over where the leader's log starts")
		f.done(w, w.partition.StartOver(w.at, start))
	default:
		f.failed(w, protocol.ErrOffsetOutOfRange)
	}
	return nil
}

// Times that ListOffsets takes for offsets.
const (
	latest   int64 = -1
	earliest int64 = -2
)

// offset asks the leader for one of its offsets, −1 where it does not tell it.
func (f *fetcher) offset(w want, which int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = int32(f.pool.cfg.Node)
	tp := w.partition.TopicPartition()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = tp.Partition, int32(w.at.LeaderEpoch), which
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := f.request(req, f.pool.cfg.Timeout)
	if err != nil {
		return -1, err
	}
	resp, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, errors.New("the answer is not the offset of one partition")
	}
	if got := resp.Topics[0].Partitions[0]; got.ErrorCode == 0 {
		return got.Offset, nil
	}
	return -1, nil
}
