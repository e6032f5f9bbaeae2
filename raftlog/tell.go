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
	wake  map[raft.ServerID]chan struct{} // size 1: there is something to tell

	mu          sync.Mutex
	index, term uint64 // of the last committed entry of ours
}

func newHerald(cfg *Config, trans *transport, acks *acks) *herald {
	h := &herald{own: serverID(cfg.NodeID), trans: trans, acks: acks, wake: make(map[raft.ServerID]chan struct{})}
	for _, v := range cfg.Voters {
		if v.ID != cfg.NodeID {
			h.wake[serverID(v.ID)] = make(chan struct{}, 1)
		}
	}
	return h
}

// committed takes note of an entry that this node has appended and that is
// committed.
func (h *herald) committed(index, term uint64) {
	h.mu.Lock()
	if index > h.index {
		h.index, h.term = index, term
	}
	h.mu.Unlock()
	for id := range h.wake {
		h.acked(id)
	}
}

// acked says that a peer may have acknowledged more.
func (h *herald) acked(id raft.ServerID) {
	select {
	case h.wake[id] <- struct{}{}: // nil for a stranger
	default:
	}
}

// run tells one peer until ended is closed.
func (h *herald) run(id raft.ServerID, ended <-chan struct{}) {
	var told uint64
	for {
		select {
		case <-h.wake[id]:
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

// peers are the nodes that are told.
func (h *herald) peers() []raft.ServerID {
	ids := make([]raft.ServerID, 0, len(h.wake))
	for id := range h.wake {
		ids = append(ids, id)
	}
	return ids
}
