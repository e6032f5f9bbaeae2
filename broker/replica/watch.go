package replica

import (
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Watcher is a follower's fetch session as partitions see it: at those where there is
// nothing for the follower it waits with a Watch from fetch to fetch, so that a fetch
// is about those with news alone, however many it follows here.
type Watcher struct {
	replica protocol.NodeID

	mu sync.Mutex // a leaf: nothing is locked under it
	// seen is when the follower fetched last, and with that asked for all it watches.
	seen   time.Time
	waiter *Waiter // of the fetch that is parked, if one is
	woken  []*Watch
}

// NewWatcher returns the watcher of a follower.
func NewWatcher(replica protocol.NodeID) *Watcher { return &Watcher{replica: replica} }

// Replica is the follower.
func (w *Watcher) Replica() protocol.NodeID { return w.replica }

// Watch is a watcher's place at one partition. Its owner guards it: Begin, End and the
// look at what Woken returned may not run at once. Its zero value waits nowhere.
type Watch struct {
	// Owner is whatever the watch is for.
	Owner any

	place
	watcher *Watcher
}

// Seen notes that the follower has fetched.
func (w *Watcher) Seen(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.After(w.seen) {
		w.seen = now
	}
}

// Wake has a waiter woken by what is watched too; nil for no one.
func (w *Watcher) Wake(waiter *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiter = waiter
	if waiter != nil && len(w.woken) > 0 {
		waiter.signal()
	}
}

// Woken returns the watches that are over, each once.
func (w *Watcher) Woken() []*Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.woken
	w.woken = nil
	return woken
}

// Begin watches a partition of which the follower has everything, and knows so: told
// is what a fetch has just seen there and the follower was told. It returns false
// where that is not so: then the next fetch has to look again.
func (w *Watch) Begin(watcher *Watcher, p *Partition, req FetchRequest, told Fetched) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.idleLocked(req, told) {
		return false
	}
	w.watcher = watcher
	w.place = place{watch: w, home: p, cond: Condition{
		HighWatermark: told.HighWatermark + 1, LEO: req.Offset + 1, LeaderEpoch: told.LeaderEpoch,
	}}
	p.waiters.add(&w.place)
	return true
}

// End stops watching. What was woken before is still among Woken.
func (w *Watch) End() {
	p := w.home
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.next != nil {
		p.waiters.remove(&w.place)
		w.seenLocked()
	}
}

// idleLocked tells whether a fetch like this one would find nothing, and change
// nothing either, until the partition wakes its watches.
func (p *Partition) idleLocked(req FetchRequest, told Fetched) bool {
	if p.role != roleLeader || p.leaderEpoch != told.LeaderEpoch || told.Diverges ||
		p.inSync.proposed != nil || !slices.Contains(p.inSync.committed, req.Replica) {
		return false
	}
	leo := p.log.LEO()
	if req.Offset != leo || told.HighWatermark != p.highWatermark || told.LogStartOffset != p.log.LogStartOffset() {
		return false
	}
	i := slices.IndexFunc(p.followers, func(f follower) bool { return f.id == req.Replica })
	if i < 0 {
		return false
	}
	f := &p.followers[i]
	return f.leo == leo && f.start == req.LogStartOffset && f.epoch == req.ReplicaEpoch
}

// wokenLocked tells the watcher. The home's mu is held.
func (w *Watch) wokenLocked() {
	w.seenLocked()
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	w.watcher.woken = append(w.watcher.woken, w)
	if w.watcher.waiter != nil {
		w.watcher.waiter.signal()
	}
}

// seenLocked makes up for the fetches that were not about this partition: the follower
// had everything at each of them. The home's mu is held.
func (w *Watch) seenLocked() {
	w.watcher.mu.Lock()
	seen := w.watcher.seen
	w.watcher.mu.Unlock()
	for i := range w.home.followers {
		if f := &w.home.followers[i]; f.id == w.watcher.replica && seen.After(f.caughtUp) && f.leo != unknownLEO {
			f.caughtUp = seen
		}
	}
}

// wakeWatches signals and removes the watches: the partition has changed in something
// that is no condition.
func (l *waiterList) wakeWatches() {
	for at := l.root.next; at != &l.root; {
		next := at.next
		if at.watch != nil {
			l.remove(at)
			at.signal()
		}
		at = next
	}
}
