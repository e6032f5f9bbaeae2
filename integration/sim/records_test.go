package sim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// acknowledged takes note of what a producer was told.
func (c *checks) acknowledged(k key, topic string, offset int64, value string, acks int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.highest[k] = max(c.highest[k], offset)
	if !safe(topic) || acks != -1 {
		return
	}
	c.counts.acknowledged++
	c.is(k, topic, offset, value)
	if c.acked[k] == nil {
		c.acked[k] = map[int64]string{}
	}
	c.acked[k][offset] = value
}

// is says what stands at an offset: for ever the same (invariant 2; B047 of package
// faults).
func (c *checks) is(k key, topic string, offset int64, value string) {
	if c.seen[k] == nil {
		c.seen[k] = map[int64]string{}
	}
	if known, ok := c.seen[k][offset]; ok && known != value {
		c.w.failf("invariant 2: %s-%d has %q at offset %d, where %q was before", topic, k.partition, value, offset, known)
	}
	c.seen[k][offset] = value
	c.committedEnds[k] = max(c.committedEnds[k], offset+1)
}

// end is about where a partition ends.
func (c *checks) end(k key) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.highest[k] + 1
}

// committedEnd is the end of what stays for ever, as far as anybody was told or shown.
func (c *checks) committedEnd(k key) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committedEnds[k]
}

// consumed looks at what a consumer was given that asked when so much was committed.
// Nobody calls that out of range (B027 of package faults), nor shows more than is
// committed (B048).
func (c *checks) consumed(k key, topic string, from, committed int64, p kmsg.FetchResponseTopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if protocol.Error(p.ErrorCode) == protocol.ErrOffsetOutOfRange && from <= committed && safe(topic) {
		c.w.failf("a consumer of %s-%d hears that offset %d is out of range, and what is below %d was acknowledged", topic, k.partition, from, committed)
	}
	if p.ErrorCode != 0 {
		return
	}
	records, err := batch.Whole(p.RecordBatches, func(b batch.Batch) error { return b.CheckCRC() })
	if err != nil {
		c.w.failf("a consumer of %s-%d gets what is no batch: %v", topic, k.partition, err)
		return
	}
	c.each(records, func(offset int64, value string) {
		if offset >= p.HighWatermark {
			c.w.failf("invariant 3: a consumer of %s-%d sees offset %d, the high watermark is %d", topic, k.partition, offset, p.HighWatermark)
		}
		if offset >= from && safe(topic) {
			c.is(k, topic, offset, value)
		}
	})
}

// read looks at what a consumer was given that has everything below a position, and
// returns its next one: there is nothing between two records.
func (c *checks) read(k key, topic string, position int64, p kmsg.FetchResponseTopicPartition) int64 {
	c.consumed(k, topic, position, position, p)
	if p.ErrorCode != 0 {
		return position
	}
	records, err := batch.Whole(p.RecordBatches, nil)
	if err != nil {
		return position // consumed says so
	}
	c.each(records, func(offset int64, _ string) {
		if offset < position {
			return
		}
		if offset > position {
			c.w.failf("invariant 1: a consumer of %s-%d gets offset %d after offset %d", topic, k.partition, offset, position-1)
		}
		position = offset + 1
	})
	return position
}

// agrees is invariant 2 at one replica of a safe partition: what it takes for committed
// it has as everybody has it. That only
// grows until the replica is moved away.
func (c *checks) agrees(l *life, topic *metadata.Topic, r *replica.Partition, highWatermark int64) {
	partition := r.TopicPartition().Partition
	k := key{topic.ID, partition}
	from, known := l.agreed[r]
	log := c.log(l.n.id, topic, partition)
	if log == nil {
		return
	}
	if known && highWatermark < from {
		c.w.failf("invariant 3: at node %d the high watermark of %s-%d goes back from %d to %d", l.n.id, topic.Name, partition, from, highWatermark)
	}
	l.agreed[r] = highWatermark
	for from < highWatermark {
		slice, err := log.Read(from, 64<<10, highWatermark, true)
		if errors.Is(err, protocol.ErrNotLeaderForPartition) {
			return // it is closed: the broker has stopped
		}
		if err != nil {
			c.w.failf("read %s-%d at node %d: %v", topic.Name, partition, l.n.id, err)
			return
		}
		records, err := slice.Bytes()
		slice.Release()
		if err != nil || len(records) == 0 {
			c.w.failf("node %d has nothing of %s-%d at offset %d, below its high watermark %d: %v", l.n.id, topic.Name, partition, from, highWatermark, err)
			return
		}
		c.each(records, func(offset int64, value string) {
			if from <= offset && offset < highWatermark {
				c.is(k, topic.Name, offset, value)
				from = offset + 1
			}
		})
	}
}

func (c *checks) each(records []byte, do func(offset int64, value string)) {
	for len(records) > 0 {
		b, rest, err := batch.Next(records)
		if err == nil {
			err = b.Each(func(r batch.Record) error {
				do(b.BaseOffset()+int64(r.OffsetDelta), string(r.Value))
				return nil
			})
		}
		if err != nil {
			c.w.failf("records can not be read: %v", err)
			return
		}
		records = rest
	}
}

func (c *checks) finalPartition(topic *metadata.Topic, p *metadata.Partition) {
	k := key{topic.ID, p.ID}
	var first []byte
	for i, id := range p.Replicas {
		log := c.log(id, topic, p.ID)
		if log == nil {
			c.w.failf("%s-%d has no log at %d; %s", topic.Name, p.ID, id, brief(p))
			return
		}
		content, err := c.content(log)
		if err != nil {
			c.w.failf("read %s-%d at %d: %v", topic.Name, p.ID, id, err)
			return
		}
		if i == 0 {
			first = content
		} else if !bytes.Equal(content, first) {
			c.w.failf("invariant 2: %s-%d is another one on %d than on %d", topic.Name, p.ID, id, p.Replicas[0])
		}
	}
	got, once := map[int64]string{}, map[string]int64{}
	next := map[int64]int32{} // sequence, by producer
	c.each(first, func(offset int64, value string) {
		got[offset] = value
		if !safe(topic.Name) {
			return
		}
		if before, ok := once[value]; ok {
			c.w.failf("invariant 5: %s-%d has %q at offset %d, and at offset %d", topic.Name, p.ID, value, before, offset)
		}
		once[value] = offset
		var producer int64
		var sequence int32
		if n, _ := fmt.Sscanf(value, idempotentValue, &producer, &sequence); n < 2 {
			return
		}
		if sequence != next[producer] {
			c.w.failf("invariant 5: %s-%d has %q at offset %d, and expects of it sequence %d", topic.Name, p.ID, value, offset, next[producer])
		}
		next[producer] = sequence + 1
	})
	for offset, value := range c.acked[k] {
		if got[offset] != value {
			c.w.failf("invariant 1: %s-%d has %q at offset %d, and %q was acknowledged", topic.Name, p.ID, got[offset], offset, value)
		}
	}
}

func (c *checks) content(log *storage.Log) ([]byte, error) {
	var all []byte
	for at := log.LogStartOffset(); at < log.LEO(); {
		slice, err := log.Read(at, 1<<20, log.LEO(), true)
		if err != nil {
			return nil, err
		}
		b, err := slice.Bytes()
		slice.Release()
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
		before := at
		for len(b) > 0 {
			next, rest, err := batch.Next(b)
			if err != nil {
				return nil, err
			}
			at, b = next.NextOffset(), rest
		}
		if at == before {
			return nil, fmt.Errorf("nothing at offset %d", at)
		}
	}
	return all, nil
}

// held is what acks=all means: as many replicas as have to be in sync have it.
// Those that are down may, and who lost power may have had it: a leader that is cut
// off hears of its fetch, and late, before it hears of its end.
func (c *checks) held(n *node, k key, offset int64) {
	topic, ok := c.newest.TopicByID(k.topic)
	if !ok || !safe(topic.Name) {
		return
	}
	have, want := 0, 1
	if config, ok := c.newest.ConfigsOf(metadata.Resource{Type: metadata.ResourceTopic, Name: topic.Name})("min.insync.replicas"); ok {
		if _, err := fmt.Sscan(config, &want); err != nil {
			c.w.failf("min.insync.replicas of %s: %v", topic.Name, err)
		}
	}
	for _, other := range c.w.brokers() {
		l := other.running()
		if l == nil || other.lostPower {
			have++
			continue
		}
		l.mu.Lock()
		store := l.store
		l.mu.Unlock()
		if store == nil {
			have++
		} else if log, ok := store.Get(protocol.TopicPartition{Topic: topic.Name, Partition: k.partition}); ok && log.TopicID() == k.topic && log.LEO() > offset {
			have++
		}
	}
	if have < want {
		c.w.failf("invariant 1: node %d acknowledges offset %d of %s-%d, which %d replicas have", n.id, offset, topic.Name, k.partition, have)
	}
}
