package raftlog

import (
	"sync"

	"github.com/klamm/klamm/protocol"
)

// office is the latest state of leadership: what the library says, which may
// change many times before anybody looks, and what is published.
type office struct {
	mu      sync.Mutex
	leading bool       // the library's last word
	word    uint64     // counts its words, so that a fast loss and return is seen
	raft    Leadership // as Raft has it
	told    Leadership // as others told a node that is no member; no leader for nothing
	cur     Leadership
	changed chan struct{} // closed and replaced when cur changes
}

func newOffice() *office {
	unknown := Leadership{Leader: protocol.NoNode, Offset: Skipped}
	return &office{cur: unknown, raft: unknown, told: unknown, changed: make(chan struct{})}
}

// heard takes the library's word. It must not block, since the library waits.
// A loss is published at once; taking office has to wait for the first entry.
func (o *office) heard(leading bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leading = leading
	o.word++
	if !leading && o.cur.Leading {
		o.raft = Leadership{Epoch: o.cur.Epoch, Leader: protocol.NoNode, Offset: Skipped}
		o.publishLocked()
	}
}

// listen returns the library's last word and its number.
func (o *office) listen() (leading bool, word uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leading, o.word
}

// take publishes this node's leadership, unless there has been another word since.
func (o *office) take(word uint64, l Leadership) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.word != word {
		return false
	}
	o.raft = l
	o.publishLocked()
	return true
}

// follow publishes who else leads, unless this node has come to lead meanwhile.
func (o *office) follow(leader protocol.NodeID, epoch protocol.ControllerEpoch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leading {
		o.raft = Leadership{Epoch: epoch, Leader: leader, Offset: Skipped}
		o.publishLocked()
	}
}

// tell takes what a node that is no member has been told of the leader.
func (o *office) tell(leader protocol.NodeID, epoch protocol.ControllerEpoch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = Leadership{Epoch: epoch, Leader: leader, Offset: Skipped}
	o.publishLocked()
}

// publishLocked publishes what Raft says, or what was told where that is of a later
// epoch, or where Raft knows no leader.
func (o *office) publishLocked() {
	l := o.raft
	if t := o.told; !l.Leading && (t.Epoch > l.Epoch || t.Epoch == l.Epoch && l.Leader == protocol.NoNode) {
		l = t
	}
	if l == o.cur {
		return
	}
	o.cur = l
	close(o.changed)
	o.changed = make(chan struct{})
}

// elected is what Raft says alone.
func (o *office) elected() Leadership {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.raft
}

func (o *office) current() (Leadership, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cur, o.changed
}

// holds reports whether this node is in office in an epoch.
func (o *office) holds(epoch protocol.ControllerEpoch) bool {
	l, _ := o.current()
	return l.Leading && l.Epoch == epoch
}
