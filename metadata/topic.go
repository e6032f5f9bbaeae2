package metadata

import (
	"iter"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// chunkSize is the number of partitions that a change of one of them copies.
const chunkSize = 64

// Topic is one topic with its partitions. It is never modified once an image
// holds it.
type Topic struct {
	Name string
	ID   protocol.UUID

	// chunks hold partition i at chunks[i/chunkSize][i%chunkSize]; every chunk
	// but the last is full. Versions of a topic share the chunks that are equal.
	chunks [][]*Partition
	count  int
}

// NumPartitions is the number of partitions; their ids are 0 to that, exclusive.
func (t *Topic) NumPartitions() int { return t.count }

// Partition returns partition id.
func (t *Topic) Partition(id int32) (*Partition, bool) {
	if id < 0 || int(id) >= t.count {
		return nil, false
	}
	return t.chunks[id/chunkSize][id%chunkSize], true
}

// Partitions yields the partitions by id.
func (t *Topic) Partitions() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		for _, chunk := range t.chunks {
			for _, p := range chunk {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Changed returns the partition with a change merged as Kafka's
// PartitionRegistration does: what the record leaves out stays, the partition
// epoch goes up, and the leader epoch where a leader is recorded, be it the same
// one.
func (p *Partition) Changed(r *record.PartitionChange) *Partition {
	next := *p
	next.PartitionEpoch++
	if r.Leader != record.LeaderUnchanged {
		next.Leader = r.Leader
		next.LeaderEpoch++
	}
	if r.LeaderRecovery != record.RecoveryUnchanged {
		next.LeaderRecovery = r.LeaderRecovery
	}
	if r.Directories != nil {
		next.Directories = r.Directories
	}
	for _, field := range []struct{ dst, src *[]protocol.NodeID }{
		{&next.Replicas, &r.Replicas},
		{&next.ISR, &r.ISR},
		{&next.ELR, &r.ELR},
		{&next.LastKnownELR, &r.LastKnownELR},
		{&next.RemovingReplicas, &r.RemovingReplicas},
		{&next.AddingReplicas, &r.AddingReplicas},
	} {
		if *field.src != nil {
			*field.dst = *field.src
		}
	}
	return &next
}

// topicEdit is a topic that a delta is writing: it owns the topic and those
// chunks that it has copied.
type topicEdit struct {
	topic *Topic
	owned []bool // by chunk
}

func editTopic(t *Topic) *topicEdit {
	next := &Topic{Name: t.Name, ID: t.ID, count: t.count, chunks: make([][]*Partition, len(t.chunks))}
	copy(next.chunks, t.chunks)
	return &topicEdit{topic: next, owned: make([]bool, len(t.chunks))}
}

// put sets partition p.ID, which exists or is the next one.
func (e *topicEdit) put(p *Partition) {
	t, c := e.topic, int(p.ID)/chunkSize
	if c == len(t.chunks) {
		t.chunks = append(t.chunks, make([]*Partition, 0, min(chunkSize, 4)))
		e.owned = append(e.owned, true)
	}
	if !e.owned[c] {
		t.chunks[c] = append(make([]*Partition, 0, len(t.chunks[c])+1), t.chunks[c]...)
		e.owned[c] = true
	}
	if int(p.ID) == t.count {
		t.chunks[c] = append(t.chunks[c], p)
		t.count++
		return
	}
	t.chunks[c][int(p.ID)%chunkSize] = p
}

// changedPartitions yields (before, after) for every partition that differs
// between two versions of a topic; nil stands for absent on either side.
func changedPartitions(before, after *Topic) iter.Seq2[*Partition, *Partition] {
	return func(yield func(before, after *Partition) bool) {
		var olds, news [][]*Partition
		if before != nil {
			olds = before.chunks
		}
		if after != nil {
			news = after.chunks
		}
		for c := range max(len(olds), len(news)) {
			var a, b []*Partition
			if c < len(olds) {
				a = olds[c]
			}
			if c < len(news) {
				b = news[c]
			}
			if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
				continue // a chunk that both share
			}
			for i := range max(len(a), len(b)) {
				var x, y *Partition
				if i < len(a) {
					x = a[i]
				}
				if i < len(b) {
					y = b[i]
				}
				if x != y && !yield(x, y) {
					return
				}
			}
		}
	}
}
