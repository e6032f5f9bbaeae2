package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/client"
)

// rangeBytes is how much of a replica is read for one range, and at least a batch.
const rangeBytes = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// replicaCopy is one broker's replica, read from its start on.
type replicaCopy struct {
	broker int32
	// read returns whole batches from the one with the offset on, below the
	// replica's high watermark, which it returns too.
	read func(ctx context.Context, offset int64) (batches []batch.Batch, highWatermark int64, err error)

	start, highWatermark int64

	held []batch.Batch // of the present range, in order
	next int64         // the offset behind them
}

// partition compares the replicas of one partition.
func (v *verification) partition(ctx context.Context, p *kmsg.MetadataResponseTopicPartition) verified {
	// What is read may be deleted meanwhile, by retention: then it is begun anew.
	for attempt := 0; ; attempt++ {
		out, err := v.tryPartition(ctx, p)
		if attempt < 5 && errors.Is(err, protocol.ErrOffsetOutOfRange) {
			continue
		}
		if err != nil {
			out.Equal = false
			out.Problems = append(out.Problems, err.Error())
		}
		return out
	}
}

func (v *verification) tryPartition(ctx context.Context, p *kmsg.MetadataResponseTopicPartition) (verified, error) {
	out := verified{Partition: p.Partition, Equal: true, Replicas: []int32{}, Ranges: []comparedPart{}, Problems: []string{}}
	var copies []*replicaCopy
	committed := int64(-1)
	// The leader first: it knows what is committed.
	ids := slices.Clone(p.Replicas)
	slices.SortStableFunc(ids, func(a, b int32) int {
		return cmp.Compare(boolInt(a != p.Leader), boolInt(b != p.Leader))
	})
	for _, id := range ids {
		b := v.brokers[id]
		if b == nil {
			b = &broker{id: id, gone: errors.New("the cluster does not know where it is")}
			v.brokers[id] = b
		}
		c := &replicaCopy{broker: id, read: v.reader(b, p.Partition)}
		atLeast := int64(0)
		if slices.Contains(p.ISR, id) {
			atLeast = committed
		}
		if err := v.open(ctx, b, p.Partition, c, atLeast); errors.Is(err, protocol.ErrOffsetOutOfRange) {
			return out, fmt.Errorf("broker %d: %w", id, err)
		} else if err != nil {
			out.Equal = false
			out.Problems = append(out.Problems, fmt.Sprintf("broker %d does not answer: %v", id, err))
			continue
		}
		if id == p.Leader {
			committed = c.highWatermark
		}
		copies = append(copies, c)
	}
	slices.SortFunc(copies, func(a, b *replicaCopy) int { return cmp.Compare(a.broker, b.broker) })
	for _, c := range copies {
		out.Replicas = append(out.Replicas, c.broker)
		if c.highWatermark < committed {
			out.Equal = false
			out.Problems = append(out.Problems, fmt.Sprintf("broker %d is behind: it knows of offsets below %d, the leader below %d", c.broker, c.highWatermark, committed))
		}
	}
	if len(copies) == 0 {
		return out, nil
	}
	return out, out.compare(ctx, copies, v.compact)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// follow is how long a replica in sync gets to hear of the leader's high watermark.
const follow = 5 * time.Second

// open learns where a replica begins and how far it is committed as far as it
// knows, which is asked again until that is atLeast.
func (v *verification) open(ctx context.Context, b *broker, partition int32, c *replicaCopy, atLeast int64) error {
	err := v.ask(ctx, b, func(ctx context.Context, conn *client.Conn) error {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -2 // whoever debugs may ask any replica
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = *v.topic.Topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = partition, -1, -2
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		resp := answer.(*kmsg.ListOffsetsResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return errors.New("the answer to ListOffsets is not about one partition")
		}
		if code := protocol.Error(resp.Topics[0].Partitions[0].ErrorCode); code != protocol.None {
			return code
		}
		c.start = resp.Topics[0].Partitions[0].Offset
		return nil
	})
	for deadline := time.Now().Add(follow); err == nil; {
		if _, c.highWatermark, err = c.read(ctx, c.start); err != nil || c.highWatermark >= atLeast || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return err
}

// reader reads a partition from a broker, be it the leader or a follower.
func (v *verification) reader(b *broker, partition int32) func(context.Context, int64) ([]batch.Batch, int64, error) {
	return func(ctx context.Context, offset int64) (batches []batch.Batch, highWatermark int64, err error) {
		err = v.ask(ctx, b, func(ctx context.Context, conn *client.Conn) error {
			batches, highWatermark, err = v.fetch(ctx, conn, partition, offset)
			return err
		})
		return batches, highWatermark, err
	}
}

// oldestFollowerFetch is the first version in which a follower answers (KIP-392).
const oldestFollowerFetch = 11

func (v *verification) fetch(ctx context.Context, conn *client.Conn, partition int32, offset int64) ([]batch.Batch, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = rangeBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = *v.topic.Topic, v.topic.TopicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, rangeBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	if version, err := conn.Version(req); err != nil {
		return nil, 0, err
	} else if version < oldestFollowerFetch {
		return nil, 0, fmt.Errorf("its followers can not be read from: %w", protocol.ErrUnsupportedVersion)
	}
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return nil, 0, code
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, 0, errors.New("the answer to Fetch is not about one partition")
	}
	got := &resp.Topics[0].Partitions[0]
	switch code := protocol.Error(got.ErrorCode); code {
	case protocol.None:
	case protocol.ErrOffsetOutOfRange, protocol.ErrCorruptMessage:
		return nil, 0, finalError{fmt.Errorf("read offset %d: %w", offset, code)}
	default:
		return nil, 0, code
	}
	var batches []batch.Batch
	_, err = batch.Whole(got.RecordBatches, func(b batch.Batch) error {
		batches = append(batches, b)
		return nil
	})
	if err != nil {
		return nil, 0, finalError{fmt.Errorf("what begins at offset %d: %w", offset, err)}
	}
	return batches, got.HighWatermark, nil
}

// compare goes through what all copies have, range for range.
func (v *verified) compare(ctx context.Context, copies []*replicaCopy, compact bool) error {
	v.From, v.To = copies[0].start, copies[0].highWatermark
	for _, c := range copies {
		v.From, v.To = max(v.From, c.start), min(v.To, c.highWatermark)
	}
	v.To = max(v.From, v.To)
	for _, c := range copies {
		c.next = v.From
	}
	whole, equal := crc32.New(castagnoli), true
	for at := v.From; at < v.To && len(copies) > 1; {
		next, err := readRange(ctx, copies, at, v.To)
		if err != nil {
			return err
		}
		part := comparedPart{From: at, To: next}
		part.compare(copies, compact)
		v.Bytes += part.Copies[0].Bytes
		for _, b := range copies[0].held {
			_, _ = whole.Write(b)
		}
		equal = equal && part.Equal
		v.Ranges = append(v.Ranges, part)
		at = next
		for _, c := range copies {
			c.held = nil
		}
	}
	if v.Equal = v.Equal && equal; equal && v.Bytes > 0 {
		v.Checksum = fmt.Sprintf("%08x", whole.Sum32())
	}
	return nil
}

// readRange reads the same offsets of all copies, from at to an offset that it
// returns, where a batch begins in each of them, or which is the last.
func readRange(ctx context.Context, copies []*replicaCopy, at, last int64) (int64, error) {
	to := at
	for {
		before := to
		for _, c := range copies {
			for first := true; c.next < to || first && c.next == at; first = false {
				batches, _, err := c.read(ctx, c.next)
				if err != nil {
					return 0, fmt.Errorf("broker %d: %w", c.broker, err)
				}
				reached := c.next
				for _, b := range batches {
					// Another copy's end bounds this one, but for the first to be read.
					if b.BaseOffset() >= last || to > at && b.BaseOffset() >= to {
						break
					}
					if b.NextOffset() > c.next {
						c.held, reached = append(c.held, b), b.NextOffset()
					}
				}
				switch {
				case reached > c.next:
				case len(batches) > 0 && to > at:
					reached = to // nothing of it is left there
				case len(batches) > 0:
					reached = last
				default:
					return 0, fmt.Errorf("broker %d returns nothing at offset %d, which is below its high watermark", c.broker, c.next)
				}
				c.next = reached
			}
			to = max(to, c.next)
		}
		if to == before {
			return to, nil
		}
	}
}

// compare compares what the copies hold of a range.
func (r *comparedPart) compare(copies []*replicaCopy, compact bool) {
	r.Equal = true
	for _, c := range copies {
		sum, bytes := crc32.New(castagnoli), int64(0)
		for _, b := range c.held {
			_, _ = sum.Write(b)
			bytes += int64(len(b))
		}
		r.Copies = append(r.Copies, copied{Broker: c.broker, Batches: len(c.held), Bytes: bytes, Checksum: fmt.Sprintf("%08x", sum.Sum32())})
		r.Equal = r.Equal && r.Copies[0].Checksum == r.Copies[len(r.Copies)-1].Checksum && r.Copies[0].Bytes == bytes
	}
	if r.Equal {
		return
	}
	differ := firstBatch
	if compact {
		differ = firstRecord
	}
	for _, c := range copies[1:] {
		if at, ok := differ(copies[0].held, c.held, r.To); ok && (r.First == nil || at < *r.First) {
			r.First = &at
		}
	}
	r.Equal = r.First == nil
}

// firstBatch is the offset at which the first batch begins that is not the same.
func firstBatch(a, b []batch.Batch, end int64) (int64, bool) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return b[i].BaseOffset(), true
		case i >= len(b):
			return a[i].BaseOffset(), true
		case string(a[i]) != string(b[i]):
			return min(a[i].BaseOffset(), b[i].BaseOffset(), end), true
		}
	}
	return 0, false
}

// firstRecord is the first offset that both have, with different records. A batch
// that can not be unpacked is different.
func firstRecord(a, b []batch.Batch, _ int64) (int64, bool) {
	one, failed := records(a)
	two, alsoFailed := records(b)
	first, found := int64(0), false
	note := func(offset int64) {
		if !found || offset < first {
			first, found = offset, true
		}
	}
	for _, f := range []*int64{failed, alsoFailed} {
		if f != nil {
			note(*f)
		}
	}
	for offset, sum := range one {
		if other, ok := two[offset]; ok && other != sum {
			note(offset)
		}
	}
	return first, found
}

// records are checksums of records by offset, and the batch that is unreadable.
func records(batches []batch.Batch) (map[int64]string, *int64) {
	sums := map[int64]string{}
	for _, b := range batches {
		base := b.BaseOffset()
		err := b.Each(func(r batch.Record) error {
			text := fmt.Sprintf("%t %d %t %x %t %x", b.IsControl(), r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value)
			for h := range r.Headers.All() {
				text += fmt.Sprintf(" %x %t %x", h.Key, h.Value == nil, h.Value)
			}
			sums[base+int64(r.OffsetDelta)] = fmt.Sprintf("%08x %d", crc32.Checksum([]byte(text), castagnoli), len(text))
			return nil
		})
		if err != nil {
			return sums, &base
		}
	}
	return sums, nil
}
