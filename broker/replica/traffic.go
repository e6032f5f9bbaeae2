package replica

import (
	"slices"
	"sync/atomic"

	"github.com/klamm/klamm/protocol"
)

// Count is what Traffic counts.
type Count int

// What goes through partitions, by the names of Kafka's BrokerTopicMetrics.
const (
	BytesIn        Count = iota // that producers wrote
	BytesOut                    // that consumers read
	MessagesIn                  // records that producers wrote
	Rejected                    // bytes of batches that were too large
	Produces                    // produce requests, once for each partition
	ProducesFailed              // those that failed for a reason that is no everyday one
	Fetches                     // answers to fetches, once for each partition in them
	FetchesFailed               // those with an error that is no everyday one

	// The rest is of all topics together: batches whose bytes are not those of their
	// checksum, batches of another format, and what other brokers wrote here and read,
	// with the part of it that goes to replicas that are being added.
	BadCRC
	BadMagic
	ReplicatedIn
	ReplicatedOut
	ReassignedIn
	ReassignedOut
	numCounts
)

// ofLeaders tells whether a count is of partitions that are led here: a follower's is
// of the past, and not shown.
func (c Count) ofLeaders() bool { return c != BytesOut && c != Fetches && c != FetchesFailed }

// Traffic counts what goes through the partitions of one topic on this broker, and
// with it what goes through all of them.
type Traffic struct {
	n          [numCounts]atomic.Int64
	all        *Traffic // nil for that of all topics
	partitions int      // that it is of; guarded by Manager.mu
}

// Add counts.
func (t *Traffic) Add(c Count, n int64) {
	t.n[c].Add(n)
	if t.all != nil {
		t.all.n[c].Add(n)
	}
}

// Of returns a count.
func (t *Traffic) Of(c Count) int64 { return t.n[c].Load() }

// CountReplicated counts what another replica read.
func (p *Partition) CountReplicated(reader protocol.NodeID, bytes int) {
	p.traffic.Add(ReplicatedOut, int64(bytes))
	p.mu.Lock()
	adding := slices.Contains(p.adding, reader)
	p.mu.Unlock()
	if adding {
		p.traffic.Add(ReassignedOut, int64(bytes))
	}
}

// joinTopicLocked returns what counts for one more partition of a topic.
func (m *Manager) joinTopicLocked(topicID protocol.UUID) *Traffic {
	t := m.topics[topicID]
	if t == nil {
		t = &Traffic{all: &m.traffic}
		m.topics[topicID] = t
	}
	t.partitions++
	return t
}

// leaveTopicLocked lets go of it with the last partition.
func (m *Manager) leaveTopicLocked(topicID protocol.UUID) {
	t := m.topics[topicID]
	if t.partitions--; t.partitions == 0 {
		delete(m.topics, topicID)
	}
}

// Traffic counts what goes through the partitions of this one's topic.
func (p *Partition) Traffic() *Traffic { return p.traffic }
