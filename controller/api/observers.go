package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
)

const (
	// observerSession is how long an observer that fetches no more is listed
	// (Kafka's OBSERVER_SESSION_TIMEOUT_MS).
	observerSession = 5 * time.Minute
	// maxObservers bounds those that are remembered: ids and directory ids are
	// what requests say. Beyond it new ones are served and not listed.
	maxObservers = 10_000
)

// replicaKey names a follower of the metadata log; an empty disk makes another
// one of a node.
type replicaKey struct {
	id        protocol.NodeID
	directory protocol.UUID
}

// observer is how far one follower is, as its fetches tell.
type observer struct {
	replicaKey
	leo      int64 // exclusive
	fetched  time.Time
	caughtUp time.Time // when it last had all that the leader had
	fetchEnd int64     // the leader's log end at its last fetch
}

// observers are those who fetch from this leader in one epoch: another leader
// knows nothing of them.
type observers struct {
	mu    sync.Mutex
	epoch protocol.ControllerEpoch
	known map[replicaKey]*observer
}

// note takes what a fetch at offset tells, when the log's end was at end.
func (o *observers) note(key replicaKey, epoch protocol.ControllerEpoch, offset, end int64, now time.Time) {
	if key.id < 0 {
		return // a reader without a log of its own
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch < o.epoch {
		return
	}
	if epoch > o.epoch || o.known == nil {
		o.epoch, o.known = epoch, make(map[replicaKey]*observer)
	}
	r, ok := o.known[key]
	if !ok {
		if len(o.known) >= maxObservers {
			if o.expireLocked(now); len(o.known) >= maxObservers {
				return
			}
		}
		r = &observer{replicaKey: key}
		o.known[key] = r
	}
	switch {
	case offset >= end:
		r.caughtUp = now
	case ok && offset >= r.fetchEnd: // it has all that there was when it last asked
		r.caughtUp = r.fetched
	}
	r.leo, r.fetched, r.fetchEnd = offset, now, end
}

// follows tells whether a replica fetches from the leader of an epoch, and has had
// everything (Kafka's isReplicaCaughtUp asks for as much).
func (o *observers) follows(key replicaKey, epoch protocol.ControllerEpoch, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.known[key]
	return ok && epoch == o.epoch && !r.caughtUp.IsZero() && now.Sub(r.fetched) < observerSession
}

func (o *observers) expireLocked(now time.Time) {
	for key, r := range o.known {
		if now.Sub(r.fetched) >= observerSession {
			delete(o.known, key)
		}
	}
}

// list returns the observers of an epoch by id.
func (o *observers) list(epoch protocol.ControllerEpoch, now time.Time) []observer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if epoch != o.epoch {
		return nil
	}
	o.expireLocked(now)
	var all []observer
	for _, r := range o.known {
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b observer) int {
		return cmp.Or(cmp.Compare(a.id, b.id), slices.Compare(a.directory[:], b.directory[:]))
	})
	return all
}
