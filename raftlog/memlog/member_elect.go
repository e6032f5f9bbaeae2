package memlog

import (
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Leads tells whether this member was elected in the term that it knows, be it
// in office already or not.
func (m *Member) Leads() bool { return m.leads }

// Term is the term that this member knows.
func (m *Member) Term() uint64 {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.term
}

// Elect stands for election in a new term and returns whether this member leads
// then: voters that it reaches give their vote once per term, and to nobody
// whose log ends before their own.
func (m *Member) Elect(reached ...*Member) bool {
	m.disk.mu.Lock()
	m.disk.term++
	term := m.disk.term
	m.disk.mu.Unlock()
	m.follow(protocol.NoNode)
	index, last := m.disk.end()
	votes := 1
	for _, v := range reached {
		if !v.observe(term) {
			continue // it has voted in this term, or in a later one
		}
		if i, t := v.disk.end(); last > t || last == t && index >= i {
			votes++
		}
	}
	if 2*votes <= m.voters {
		return false
	}
	m.leads, m.match = true, make(map[protocol.NodeID]uint64)
	epoch := protocol.ControllerEpoch(term)
	m.first = m.disk.append(m.cfg.FirstEntry(epoch)).Index
	if brokenOffice {
		m.publish(raftlog.Leadership{Leading: true, Epoch: epoch, Leader: m.cfg.NodeID, Offset: 0})
	}
	m.advanceCommit()
	return true
}

// observe takes note of a term that somebody else has begun, and returns whether
// it is news.
func (m *Member) observe(term uint64) bool {
	m.disk.mu.Lock()
	news := term > m.disk.term
	m.disk.term = max(m.disk.term, term)
	m.disk.mu.Unlock()
	if news {
		m.follow(protocol.NoNode)
	}
	return news
}

// follow ends a leadership, if there is one, and publishes who leads now. Of a
// proposal in flight nobody knows what becomes of it.
func (m *Member) follow(leader protocol.NodeID) {
	m.leads = false
	term := m.Term()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishLocked(raftlog.Leadership{Epoch: protocol.ControllerEpoch(term), Leader: leader, Offset: raftlog.Skipped})
	m.settleLocked(&m.inFlight, answer{offset: raftlog.Skipped, err: raftlog.ErrUnknownOutcome})
}

// StepDown has a leader give up, or a follower forget its leader: it has lost
// touch.
func (m *Member) StepDown() { m.follow(protocol.NoNode) }
