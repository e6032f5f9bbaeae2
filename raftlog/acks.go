package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// acks is what the peers have answered this leader.
type acks struct {
	mu    sync.Mutex
	peers map[raft.ServerID]ack
}

// ack is one peer's progress in one term: what it acknowledged to an earlier
// leadership says nothing about the log of this one.
type ack struct {
	term     uint64
	index    uint64
	contact  time.Time // of the last answer
	caughtUp time.Time // when the last request was sent that left nothing behind
}

// note records an answer. index is what it acknowledged, 0 for nothing; last is
// this node's last index when the request was sent.
func (a *acks) note(id raft.ServerID, term, index uint64, sent time.Time, last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peers == nil {
		a.peers = make(map[raft.ServerID]ack)
	}
	p := a.peers[id]
	switch {
	case term < p.term:
		return
	case term > p.term:
		p = ack{term: term, contact: p.contact, caughtUp: p.caughtUp}
	}
	p.contact = time.Now()
	p.index = max(p.index, index)
	if index > 0 && p.index >= last {
		p.caughtUp = sent
	}
	a.peers[id] = p
}

// in returns a peer's progress in a term.
func (a *acks) in(id raft.ServerID, term uint64) ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.peers[id]
	if p.term != term {
		p.index = 0
	}
	return p
}
