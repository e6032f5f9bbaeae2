package replica

import (
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
)

// arrivals is which followers have still to come to partitions that this broker has
// begun to lead. A follower that waits here in a long fetch of others would ask for
// a new one when that is over, and the first acks=all write of a new topic would
// wait for it: so its fetch ends at once. Its metadata may be behind, and it comes
// back without the new one: then it is held for a short time only, longer each
// time, until it asks for all, or until there is nothing to win any more.
type arrivals struct {
	mu sync.Mutex // a leaf: nothing is locked under it
	of map[protocol.NodeID]*arrival
}

// arrival is of one follower.
type arrival struct {
	// awaited are the partitions, with the leader epoch under which it has to come.
	awaited map[*Partition]protocol.LeaderEpoch
	hold    time.Duration // for which its next fetch is held
	parked  map[*Waiter]struct{}
	rung    int // how often there were others
}

// A follower's metadata is a few milliseconds behind. The sum of all short times is
// about that of an ordinary fetch.
const (
	firstHold = 5 * time.Millisecond
	lastHold  = 320 * time.Millisecond
)

// expect has followers awaited at partitions that get their leader here. It comes
// before they do, ring after.
func (a *arrivals) expect(led []step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range led {
		for _, id := range s.after.Replicas {
			if id != s.partition.local {
				at := a.atLocked(id)
				at.awaited[s.partition], at.hold = s.after.LeaderEpoch, firstHold
			}
		}
	}
}

// ring ends the fetches of those that are awaited anew.
func (a *arrivals) ring(led []step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make(map[protocol.NodeID]struct{})
	for _, s := range led {
		for _, id := range s.after.Replicas {
			ids[id] = struct{}{}
		}
	}
	for id := range ids {
		if at := a.of[id]; at != nil {
			at.rung++
			for w := range at.parked {
				w.signal()
			}
		}
	}
}

func (a *arrivals) atLocked(id protocol.NodeID) *arrival {
	at := a.of[id]
	if at == nil {
		if a.of == nil {
			a.of = make(map[protocol.NodeID]*arrival)
		}
		at = &arrival{awaited: make(map[*Partition]protocol.LeaderEpoch), parked: make(map[*Waiter]struct{})}
		a.of[id] = at
	}
	return at
}

// came takes note that a follower has asked for a partition under a leader epoch.
func (a *arrivals) came(id protocol.NodeID, p *Partition, epoch protocol.LeaderEpoch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.of[id]; at != nil && at.awaited[p] <= epoch {
		delete(at.awaited, p)
	}
}

// forget ends the waiting at partitions that this broker leads no more.
func (a *arrivals) forget(left []step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.of {
		for _, s := range left {
			delete(at.awaited, s.partition)
		}
	}
}

// ParkForArrival has a waiter woken when a follower gets another partition here. It
// returns when its fetch should end at the latest: at deadline, or earlier while it
// has not asked for all. leave, which has to be called after the waiting, tells
// whether there was another one.
func (m *Manager) ParkForArrival(w *Waiter, follower protocol.NodeID, deadline time.Time) (until time.Time, leave func() bool) {
	a := &m.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.of[follower]
	if at == nil {
		if _, known := m.image.Load().Broker(follower); !known {
			return deadline, func() bool { return false } // an id that somebody made up
		}
		at = a.atLocked(follower)
	}
	if len(at.awaited) > 0 && at.hold <= lastHold {
		if short := time.Now().Add(at.hold); short.Before(deadline) {
			deadline = short
		}
		at.hold *= 2
	}
	at.parked[w] = struct{}{}
	rung := at.rung
	return deadline, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(at.parked, w)
		return at.rung != rung
	}
}

// arriving are the steps of a plan after which followers are awaited, and those
// after which they are not any longer.
func (p plan) arriving() (led, left []step) {
	for _, s := range p.changed {
		switch s.act {
		case actionLead:
			led = append(led, s)
		case actionFollow:
			left = append(left, s)
		}
	}
	return led, slices.Concat(left, p.deleted)
}
