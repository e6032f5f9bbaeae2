//go:build integration

package faults

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// TestB023LookupInACompressedBatch: a lookup by time that ends inside a
// compressed batch gave the offset of the batch. It is that of the record, as
// in a batch that is not compressed.
func TestB023LookupInACompressedBatch(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	for codec := batch.CodecNone; codec <= batch.CodecZstd; codec++ {
		topic := createTopic(c, "retention.ms", "-1")
		for _, base := range []int64{1000, 2000} {
			b := batch.NewBuilder(batch.Options{Codec: codec})
			for _, after := range []int64{0, 10, 5, 20} {
				b.Append(batch.Record{Timestamp: base + after, Value: []byte("value value value")})
			}
			wantCode(t, "produce", produce(c, topic, build(b)).ErrorCode, protocol.None)
		}
		for _, want := range []struct{ ask, offset, timestamp int64 }{
			{0, 0, 1000},
			{1001, 1, 1010},
			{1005, 1, 1010},
			{1011, 3, 1020},
			{1021, 4, 2000},
			{2010, 5, 2010},
			{2020, 7, 2020},
			{2021, -1, -1},
			{-3, 7, 2020},
		} {
			got := listOffset(c, topic, want.ask)
			wantCode(t, "lookup", got.ErrorCode, protocol.None)
			if got.Offset != want.offset || got.Timestamp != want.timestamp {
				t.Errorf("codec %v, time %d: offset %d of time %d, want %d of %d", codec, want.ask, got.Offset, got.Timestamp, want.offset, want.timestamp)
			}
		}
	}
}

// TestB024LookupInAnEmptyLog: a lookup by time in a topic without records was
// an error. It finds nothing.
func TestB024LookupInAnEmptyLog(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	for _, time := range []int64{1, -3} {
		got := listOffset(c, topic, time)
		wantCode(t, "lookup", got.ErrorCode, protocol.None)
		if got.Offset != -1 || got.Timestamp != -1 {
			t.Errorf("time %d: offset %d of time %d, want -1 of -1", time, got.Offset, got.Timestamp)
		}
	}
}

// TestB033SeekInASession: a consumer that sought back within a fetch session
// got what it would have read without the seek. A partition that is listed
// again with another offset is read from there, now and by later requests
// that do not list it.
func TestB033SeekInASession(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	for range 10 {
		mustProduce(c, topic, ten...)
	}
	first := func(what string, resp *kmsg.FetchResponse, want int64) {
		t.Helper()
		wantCode(t, what, resp.ErrorCode, protocol.None)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			t.Fatalf("%s: the answer has not the one partition: %+v", what, resp.Topics)
		}
		if offsets := offsetsOf(t, resp.Topics[0].Partitions[0].RecordBatches); len(offsets) == 0 || offsets[0] != want {
			t.Errorf("%s: records at %v, want them from %d", what, offsets, want)
		}
	}
	small := func(req *kmsg.FetchRequest, session, epoch int32) *kmsg.FetchRequest {
		req.MaxBytes, req.SessionID, req.SessionEpoch = 200, session, epoch
		return req
	}
	opened := ask[*kmsg.FetchResponse](c, 12, small(fetchRequest(topic, fetchPartition(50)), 0, 0))
	first("the request that opens the session", opened, 50)
	session := opened.SessionID
	if session == 0 {
		t.Fatal("there is no session")
	}
	first("after the seek", ask[*kmsg.FetchResponse](c, 12, small(fetchRequest(topic, fetchPartition(10)), session, 1)), 10)
	first("without listing it", ask[*kmsg.FetchResponse](c, 12, small(fetchRequest(topic), session, 2)), 10)
}

// TestB035EndOfNoEpoch: a leader that was asked for the end of an undefined
// epoch gave the end of its log, to which a follower then truncated. No epoch
// has no end.
func TestB035EndOfNoEpoch(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	mustProduce(c, topic, "a", "b", "c")
	endOf := func(epoch int32) (int32, int64) {
		t.Helper()
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		partition.LeaderEpoch = epoch
		asked := kmsg.NewOffsetForLeaderEpochRequestTopic()
		asked.Topic, asked.Partitions = topic, append(asked.Partitions, partition)
		req.Topics = append(req.Topics, asked)
		p := ask[*kmsg.OffsetForLeaderEpochResponse](c, 4, req).Topics[0].Partitions[0]
		wantCode(t, "OffsetForLeaderEpoch", p.ErrorCode, protocol.None)
		return p.LeaderEpoch, p.EndOffset
	}
	if epoch, end := endOf(-1); epoch != -1 || end != -1 {
		t.Errorf("epoch -1: epoch %d ends at %d, want -1 and -1", epoch, end)
	}
	if epoch, end := endOf(0); epoch != 0 || end != 3 {
		t.Errorf("epoch 0: epoch %d ends at %d, want 0 and 3", epoch, end)
	}
	if epoch, end := endOf(999); epoch != -1 || end != -1 {
		t.Errorf("epoch 999: epoch %d ends at %d, want -1 and -1", epoch, end)
	}
}
