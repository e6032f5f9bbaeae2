package replica

import (
	"context"
	"math"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Never is an offset that no log reaches.
const Never int64 = math.MaxInt64

// Condition is what a parked request waits for at one partition. A change of
// the partition's role fulfils it too: whoever parked has to look again.
type Condition struct {
	// HighWatermark is fulfilled when the high watermark is at least this, LEO
	// when the log end is. What is not waited for is Never.
	HighWatermark int64
	LEO           int64
	// LowWatermark is fulfilled when no replica has anything below this any more;
	// 0 is not waited for.
	LowWatermark int64
	// LeaderEpoch is the epoch under which the caller looked; any other one
	// fulfils the condition.
	LeaderEpoch protocol.LeaderEpoch
	// FollowerToo says that it can be waited for at a follower.
	FollowerToo bool
}

// Waiter is one parked request: a Fetch that waits for bytes, or a Produce that
// waits for the high watermark. It stands in the lists of the partitions that it
// waits for. It belongs to the goroutine that waits, the writer of the request's
// connection; the partitions only ever send it a token.
type Waiter struct {
	// wake has size 1: a token says that something happened since the last
	// look, and a second one would say no more. Senders never block.
	wake   chan struct{}
	places []place
}

// place is a waiter's place in the list of one partition, or a watch's.
type place struct {
	waiter *Waiter
	watch  *Watch
	home   *Partition // of whose list

	// Guarded by home.mu.
	cond       Condition
	prev, next *place // nil while in no list
}

// NewWaiter returns a waiter for n partitions at a time; more than n would cost
// further allocations, so n should be their number.
func NewWaiter(n int) *Waiter {
	return &Waiter{wake: make(chan struct{}, 1), places: make([]place, 0, n)}
}

// Park puts the waiter into the partition's list until cond is fulfilled. Where
// it is already, Wait will return at once. At most as many partitions as
// NewWaiter was told may be parked at.
func (w *Waiter) Park(p *Partition, cond Condition) {
	if len(w.places) == cap(w.places) {
		panic("replica: a waiter parks at more partitions than it was made for")
	}
	w.places = append(w.places, place{waiter: w, home: p, cond: cond})
	p.park(&w.places[len(w.places)-1])
}

// Wait returns true when a partition woke the waiter, false at the deadline or
// when ctx ended. Afterwards the waiter is in no list and may park again. Since
// Park looks under the partition's lock, no change between a look of the caller
// and its Park is missed.
func (w *Waiter) Wait(ctx context.Context, deadline time.Time) bool {
	defer w.leave()
	select {
	case <-w.wake: // no timer for what has happened already
		return true
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-w.wake:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// leave takes the waiter out of all lists. No partition sends a token after it.
func (w *Waiter) leave() {
	for i := range w.places {
		at := &w.places[i]
		at.home.unpark(at)
	}
	w.places = w.places[:0]
	select {
	case <-w.wake:
	default:
	}
}

// signal leaves a token. One that comes after leave, of a Watcher or of an arrival, has
// the next Wait return for nothing.
func (w *Waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // there is one already
	}
}

// signal tells whoever waits here. The caller holds home.mu.
func (at *place) signal() {
	if at.watch != nil {
		at.watch.wokenLocked()
		return
	}
	at.waiter.signal()
}

// waiterList is the list of those that wait at one partition, in order of
// arrival. It is guarded by the partition's mu; its zero value is not ready.
type waiterList struct {
	root place // the ring's neutral element
}

func (l *waiterList) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *waiterList) empty() bool { return l.root.next == &l.root }

func (l *waiterList) add(at *place) {
	at.prev, at.next = l.root.prev, &l.root
	at.prev.next, at.next.prev = at, at
}

func (l *waiterList) remove(at *place) {
	if at.next == nil {
		return // a waker took it out
	}
	at.prev.next, at.next.prev = at.next, at.prev
	at.prev, at.next = nil, nil
}

// wake signals and removes everybody whose condition is fulfilled.
func (l *waiterList) wake(highWatermark, leo int64) {
	for at := l.root.next; at != &l.root; {
		next := at.next
		if highWatermark >= at.cond.HighWatermark || leo >= at.cond.LEO {
			l.remove(at)
			at.signal()
		}
		at = next
	}
}

// wakeDeletions signals and removes those who wait for a low watermark that is
// reached.
func (l *waiterList) wakeDeletions(lowWatermark int64) {
	for at := l.root.next; at != &l.root; {
		next := at.next
		if at.cond.LowWatermark > 0 && lowWatermark >= at.cond.LowWatermark {
			l.remove(at)
			at.signal()
		}
		at = next
	}
}

// wakeAll signals and removes everybody: the role under which they wait is over.
func (l *waiterList) wakeAll() {
	for at := l.root.next; at != &l.root; {
		next := at.next
		l.remove(at)
		at.signal()
		at = next
	}
}
