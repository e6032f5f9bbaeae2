package raftlog

import (
	"sync"

	"github.com/klamm/klamm/protocol"
)

// office is the latest state of leadership: what the library says, which may
// change many times before anybody looks, and what is published.
type office struct {
	mu      sync.Mutex
	leading bool   // the library's last word
	word    uint64 // counts its words, so that a fast loss and return is seen
	cur     Leadership
	changed chan struct{} // closed and replaced when cur changes
}

func newOffice() *office {
	return &office{cur: Leadership{Leader: protocol.NoNode, Offset: Skipped}, changed: make(chan struct{})}
}

// heard takes the library's word. It must not block, since the library waits.
// A loss is published at once; taking office has to wait for the first entry.
func (o *office) heard(leading bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leading = leading
	o.word++
	if !leading && o.cur.Leading {
		o.publishLocked(Leadership{Epoch: o.cur.Epoch, Leader: protocol.NoNode, Offset: Skipped})
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
	o.publishLocked(l)
	return true
}

// follow publishes who else leads, unless this node has come to lead meanwhile.
func (o *office) follow(leader protocol.NodeID, epoch protocol.ControllerEpoch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.leading {
		o.publishLocked(Leadership{Epoch: epoch, Leader: leader, Offset: Skipped})
	}
}

func (o *office) publishLocked(l Leadership) {
	if l == o.cur {
		return
	}
	o.cur = l
	close(o.changed)
	o.changed = make(chan struct{})
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
