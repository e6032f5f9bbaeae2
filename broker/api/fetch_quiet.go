package api

import (
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// quietParts are the partitions of a follower's session of which it has everything:
// they are watched, and a fetch is not about them. So it costs what has changed, not
// what is followed. They are guarded by the session's mu.
type quietParts struct {
	watcher      *replica.Watcher // nil in a consumer's session
	replicaEpoch protocol.BrokerEpoch
	ring         sessionPartition // in the order in which they became quiet
	count        int
	swept        time.Time
	ended        bool // the session is no more: nothing is watched again
}

// sweep is how long a partition is quiet at most. What wakes nobody is noticed by then:
// a log start that retention has moved.
const sweep = 30 * time.Second

func (q *quietParts) init(run *fetchRun, now time.Time) {
	q.ring.prev, q.ring.next = &q.ring, &q.ring
	q.swept, q.replicaEpoch = now, run.replicaEpoch
	if run.follower {
		q.watcher = replica.NewWatcher(run.replica)
	}
}

// wakeLocked has the next fetches read a partition again.
func (s *fetchSession) wakeLocked(p *sessionPartition) {
	if !p.quiet {
		return
	}
	p.watch.End()
	p.quiet = false
	s.count--
	s.unlinkLocked(p)
	s.linkLastLocked(p)
}

// beginQuietLocked begins a fetch: it finds out which partitions are quiet no longer.
func (s *fetchSession) beginQuietLocked(run *fetchRun) {
	if s.watcher == nil {
		return
	}
	s.wokenLocked()
	n := s.count
	if s.replicaEpoch == run.replicaEpoch && run.replica == s.watcher.Replica() {
		n = int(int64(s.count) * int64(min(run.received.Sub(s.swept), sweep)) / int64(sweep))
	}
	if n > 0 || s.count == 0 {
		s.swept, s.replicaEpoch = run.received, run.replicaEpoch
		for ; n > 0 && s.count > 0; n-- {
			s.wakeLocked(s.ring.next)
		}
	}
	s.watcher.Seen(run.received)
}

// wokenLocked takes those back that were woken.
func (s *fetchSession) wokenLocked() (woken []*sessionPartition) {
	for _, w := range s.watcher.Woken() {
		if p := w.Owner.(*sessionPartition); p.quiet {
			s.wakeLocked(p)
			woken = append(woken, p)
		}
	}
	return woken
}

// letQuietLocked lets those of a run be quiet about which it has nothing to tell.
func (s *fetchSession) letQuietLocked(run *fetchRun) {
	if s.watcher == nil || s.ended || s.watcher.Replica() != run.replica {
		return
	}
	for i := range run.items {
		if it := &run.items[i]; it.idle() && run.quiet(it) {
			it.quiet = true
		}
	}
}

// idle tells whether the follower was told all that there is of a partition.
func (it *fetchItem) idle() bool {
	f, p := &it.fetched, it.cached
	return it.partition != nil && it.err == nil && it.size == 0 && !f.Diverges && !p.quiet && p.next != nil &&
		f.HighWatermark == p.highWatermark && f.LogStartOffset == p.logStartOffset && !it.missed() && it.want == p.want
}

// missed tells whether the follower says that it does not know what there is to tell.
// Maybe it was told: an answer comes to nothing where it has moved to another leader
// epoch meanwhile.
func (it *fetchItem) missed() bool {
	return it.err == nil &&
		(it.want.highWatermark < it.fetched.HighWatermark || it.want.logStartOffset < it.fetched.LogStartOffset)
}

// quiet has a partition of the run watched, if there is nothing new.
func (run *fetchRun) quiet(it *fetchItem) bool {
	s, p := run.session, it.cached
	p.watch.Owner = p
	if !p.watch.Begin(s.watcher, it.partition, run.request(it, 0, false), it.fetched) {
		return false
	}
	p.quiet = true
	s.count++
	s.unlinkLocked(p)
	p.prev, p.next = s.ring.prev, &s.ring
	p.prev.next, p.next.prev = p, p
	return true
}

// watching tells whether there may be partitions that a run is not about.
func (run *fetchRun) watching() bool { return run.session != nil && run.session.watcher != nil }

// letQuiet takes those partitions out of a run that is going to wait of which there is
// nothing to tell.
func (run *fetchRun) letQuiet() {
	if !run.watching() {
		return
	}
	s := run.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != run.sessionEpoch {
		return // another request goes on with it
	}
	s.letQuietLocked(run)
	left := run.items[:0]
	for i := range run.items {
		if !run.items[i].quiet {
			left = append(left, run.items[i])
		}
	}
	clear(run.items[len(left):])
	run.items = left
}

// awake brings those into a run that was parked that are quiet no longer, and tells
// whether there are any.
func (run *fetchRun) awake() bool {
	if !run.watching() {
		return false
	}
	s := run.session
	s.mu.Lock()
	first := len(run.items)
	if s.epoch == run.sessionEpoch {
		for _, p := range s.wokenLocked() {
			run.items = append(run.items, fetchItem{key: p.key, want: p.want, name: p.name, cached: p})
		}
	}
	s.mu.Unlock()
	run.h.resolveFrom(run, first)
	return len(run.items) > first
}

// endQuiet ends the watching of a session that is no more, if s is one. It waits for
// partitions that append.
func (s *fetchSession) endQuiet() {
	if s == nil || s.watcher == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for s.count > 0 {
		s.wakeLocked(s.ring.next)
	}
}
