package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// herald tells the followers at once what has been committed. The library leaves
// that to its next entry, or to a message every 50 to 100 ms: so long an image on
// another node would lag, and whoever waits there for a change to arrive. What is
// sent is a message that the library could have sent: without entries, behind the
// last committed one, in the term in which this leader appended it. Only a peer
// that has acknowledged that entry gets it.
type herald struct {
	own   raft.ServerID
	trans *transport
	acks  *acks
	start func(peer raft.ServerID, wake <-chan struct{}) // has run be run

	mu          sync.Mutex
	wake        map[raft.ServerID]chan struct{} // size 1: there is something to tell
	index, term uint64                          // of the last committed entry of ours
}

func newHerald(own raft.ServerID, trans *transport, acks *acks) *herald {
	return &herald{own: own, trans: trans, acks: acks, wake: make(map[raft.ServerID]chan struct{})}
}

// follow takes note of who is to be told. Who was once stays: it is told nothing
// as long as it acknowledges nothing.
func (h *herald) follow(servers []raft.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range servers {
		if _, ok := h.wake[s.ID]; ok || s.ID == h.own {
			continue
		}
		wake := make(chan struct{}, 1)
		h.wake[s.ID] = wake
		h.start(s.ID, wake)
	}
}

// committed takes note of an entry that this node has appended and that is
// committed.
func (h *herald) committed(index, term uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index > h.index {
		h.index, h.term = index, term
	}
	for _, wake := range h.wake {
		poke(wake)
	}
}

// acked says that a peer may have acknowledged more.
func (h *herald) acked(id raft.ServerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	poke(h.wake[id]) // nil for a stranger
}

// poke puts a token into a channel of size 1 that lacks one.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run tells one peer until ended is closed.
func (h *herald) run(id raft.ServerID, wake, ended <-chan struct{}) {
	var told uint64
	for {
		select {
		case <-wake:
		case <-ended:
			return
		}
		h.mu.Lock()
		index, term := h.index, h.term
		h.mu.Unlock()
		if index <= told || h.acks.in(id, term).index < index {
			continue
		}
		req := &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(h.own), Addr: []byte(h.own)},
			Term:      term, PrevLogEntry: index, PrevLogTerm: term, LeaderCommitIndex: index,
		}
		var resp raft.AppendEntriesResponse
		// One that is lost is made up for by the library's own.
		if err := h.trans.NetworkTransport.AppendEntries(id, raft.ServerAddress(id), req, &resp); err == nil {
			told = index
		}
	}
}
