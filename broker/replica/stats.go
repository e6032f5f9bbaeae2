package replica

import (
	"slices"
	"sync/atomic"

	"github.com/klamm/klamm/protocol"
)

// Stats is what an operator watches of the replicas on a broker.
type Stats struct {
	Partitions int // replicas
	Offline    int // those whose log can not be used
	// Leaders and what follows are of the partitions that are led here.
	Leaders         int
	UnderReplicated []protocol.TopicPartition // fewer in sync than are assigned
	UnderMinISR     []protocol.TopicPartition // fewer in sync than min.insync.replicas
	AtMinISR        int                       // just as many
	Reassigning     int
	// Lags are of those that are followed, MaxLag is the largest.
	Lags   []Lag
	MaxLag int64
	// Topics are those with a replica here.
	Topics []TopicStats
}

// Lag is how many records of what its leader has committed a replica lacks, as far as
// it knows.
type Lag struct {
	protocol.TopicPartition
	Leader  protocol.NodeID
	Records int64
}

// TopicStats is the traffic of one topic.
type TopicStats struct {
	Topic   string
	Led     bool // a partition of it is led here
	traffic *Traffic
}

// Of returns a count; ok is false where it is of leaders, and none is here.
func (t TopicStats) Of(c Count) (n int64, ok bool) {
	return t.traffic.Of(c), c < BadCRC && (t.Led || !c.ofLeaders())
}

// Stats looks at every replica.
func (m *Manager) Stats() Stats {
	var s Stats
	topics := make(map[*Traffic]*TopicStats)
	for p := range m.Partitions() {
		led := p.stats(&s)
		t := topics[p.traffic]
		if t == nil {
			t = &TopicStats{Topic: p.tp.Topic, traffic: p.traffic}
			topics[p.traffic] = t
		}
		t.Led = t.Led || led
	}
	for _, t := range topics {
		s.Topics = append(s.Topics, *t)
	}
	return s
}

// Traffic is what went through all partitions.
func (m *Manager) Traffic() *Traffic { return &m.traffic }

// stats adds a replica, and tells whether it leads.
func (p *Partition) stats(s *Stats) (led bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role == roleGone {
		return false
	}
	s.Partitions++
	switch p.role {
	case roleNone:
		if p.err != nil {
			s.Offline++
		}
	case roleFollower:
		if p.leader == protocol.NoNode {
			break
		}
		lag := Lag{TopicPartition: p.tp, Leader: p.leader, Records: max(0, p.leaderHighWatermark-p.log.LEO())}
		s.MaxLag = max(s.MaxLag, lag.Records)
		s.Lags = append(s.Lags, lag)
	case roleLeader:
		s.Leaders++
		inSync, minimum := len(p.inSync.committed), effectiveMinInSync(p.config.MinInSyncReplicas, p.replicas)
		// Replicas that are being added are none that could lack yet.
		if inSync < p.replicas-len(p.adding) {
			s.UnderReplicated = append(s.UnderReplicated, p.tp)
		}
		switch {
		case inSync < minimum:
			s.UnderMinISR = append(s.UnderMinISR, p.tp)
		case inSync == minimum:
			s.AtMinISR++
		}
		if p.reassigning {
			s.Reassigning++
		}
		return true
	}
	return false
}

// isrCounts count what became of the proposals of this broker.
type isrCounts struct {
	shrinks, expands, failed atomic.Int64
}

// took counts an answer to a proposal.
func (c *isrCounts) took(want proposal, code protocol.Error) {
	if code != protocol.None {
		c.failed.Add(1)
		return
	}
	lacks := func(set []protocol.NodeID) func(protocol.NodeID) bool {
		return func(id protocol.NodeID) bool { return !slices.Contains(set, id) }
	}
	if slices.ContainsFunc(want.before, lacks(want.isr)) {
		c.shrinks.Add(1)
	}
	if slices.ContainsFunc(want.isr, lacks(want.before)) {
		c.expands.Add(1)
	}
}

// ISRChanges are how often leaders here made an in-sync set smaller and larger, and
// how often the controller did not take up what one asked for.
func (m *Manager) ISRChanges() (shrinks, expands, failed int64) {
	return m.isrs.shrinks.Load(), m.isrs.expands.Load(), m.isrs.failed.Load()
}
