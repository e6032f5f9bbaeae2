package api

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// Epochs of a fetch session (KIP-227, FetchMetadata.java).
const (
	initialFetchEpoch int32 = 0  // a full fetch that wants a session
	finalFetchEpoch   int32 = -1 // a full fetch that wants none, or ends one
	noFetchSession    int32 = 0
)

// nextFetchEpoch follows epoch: after the largest comes 1, since 0 asks for a
// new session.
func nextFetchEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// fetchKey names a partition in a session: by the topic's id from Fetch v13 on,
// by its name before. The other one is zero.
type fetchKey struct {
	id        protocol.UUID
	name      string
	partition int32
}

// fetchWant is what a client wants of one partition.
type fetchWant struct {
	offset             int64
	maxBytes           int32
	currentLeaderEpoch protocol.LeaderEpoch
	lastFetchedEpoch   protocol.LeaderEpoch
	logStartOffset     int64 // of the fetching replica
	highWatermark      int64 // that it knows, replica.Never where it does not tell (KIP-1166)
}

// fetchSession is what a client does not have to say again with every fetch.
type fetchSession struct {
	id       int32
	byID     bool      // its partitions are named by topic id
	follower bool      // a broker's
	lastUsed time.Time // guarded by fetchSessions.mu

	// mu guards what follows. Under it partitions are locked, which may be waiting for
	// a disk: so not under fetchSessions.mu, or all fetches would wait for that.
	mu    sync.Mutex
	epoch int32 // that the next request has to carry
	parts map[fetchKey]*sessionPartition
	// order is the ring of the partitions in the order in which they are read:
	// one that gave records goes to the end, so that a small response limit
	// starves nobody.
	order      sessionPartition
	quietParts // of a follower's
}

// sessionPartition is one partition of a session.
type sessionPartition struct {
	key  fetchKey
	want fetchWant
	// name is the topic's name, once an image knew it.
	name string
	// What the client was told last; −1 makes the next answer name the partition.
	highWatermark  int64
	logStartOffset int64

	prev, next *sessionPartition
	// quiet: it is in the ring of those without news, and watched.
	quiet bool
	watch replica.Watch
}

func newFetchSession(id int32, run *fetchRun, now time.Time) *fetchSession {
	s := &fetchSession{
		id: id, byID: run.byID, follower: run.follower, lastUsed: now,
		epoch: nextFetchEpoch(initialFetchEpoch), parts: make(map[fetchKey]*sessionPartition, len(run.items)),
	}
	s.order.prev, s.order.next = &s.order, &s.order
	s.quietParts.init(run, now)
	return s
}

// setLocked adds a partition at the end, or replaces what is wanted of it.
func (s *fetchSession) setLocked(key fetchKey, want fetchWant) *sessionPartition {
	if p, ok := s.parts[key]; ok {
		p.want = want
		s.wakeLocked(p)
		return p
	}
	p := &sessionPartition{key: key, want: want, name: key.name, highWatermark: -1, logStartOffset: -1}
	s.parts[key] = p
	s.linkLastLocked(p)
	return p
}

func (s *fetchSession) linkLastLocked(p *sessionPartition) {
	p.prev, p.next = s.order.prev, &s.order
	p.prev.next, p.next.prev = p, p
}

func (s *fetchSession) unlinkLocked(p *sessionPartition) {
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
}

func (s *fetchSession) forgetLocked(key fetchKey) {
	if p, ok := s.parts[key]; ok {
		delete(s.parts, key)
		s.wakeLocked(p)
		s.unlinkLocked(p)
	}
}

// moveLastLocked lets all others be read before p.
func (s *fetchSession) moveLastLocked(p *sessionPartition) {
	if p.next == &s.order || p.next == nil {
		return // last already, or forgotten meanwhile
	}
	s.unlinkLocked(p)
	s.linkLastLocked(p)
}

// toldLocked notes what the client is told and reports whether it has to be: an
// incremental answer leaves out what has not changed.
func (p *sessionPartition) toldLocked(r *fetchItem) bool {
	told := r.size > 0 || r.err == nil && r.sent || r.fetched.Diverges ||
		p.highWatermark != r.highWatermark() || p.logStartOffset != r.logStartOffset()
	p.highWatermark, p.logStartOffset = r.highWatermark(), r.logStartOffset()
	if r.err != nil {
		p.highWatermark = -1 // so that the partition is named when the error is gone
		told = true
	}
	return told
}

// fetchSessions are the sessions of a broker, bounded in number.
type fetchSessions struct {
	slots      int           // max.incremental.fetch.session.cache.slots
	evictAfter time.Duration // idle for longer, a session makes room for a new one
	newID      func() int32  // random, positive

	mu   sync.Mutex // a leaf
	byID map[int32]*fetchSession
}

func newFetchSessions(slots int, evictAfter time.Duration) *fetchSessions {
	return &fetchSessions{
		slots: slots, evictAfter: evictAfter, byID: make(map[int32]*fetchSession),
		newID: func() int32 { return rand.Int32N(1<<31-2) + 1 },
	}
}

// begin finds out what a Fetch is about and fills run's items with the
// partitions to read. An error is one of the whole request.
func (c *fetchSessions) begin(run *fetchRun, req *kmsg.FetchRequest, now time.Time) error {
	if req.SessionEpoch == initialFetchEpoch || req.SessionEpoch == finalFetchEpoch {
		// A full fetch ends the session that it names.
		if req.SessionID != noFetchSession {
			c.remove(req.SessionID)
		}
		run.addWanted(req)
		run.wantsSession = req.SessionEpoch == initialFetchEpoch && req.Version >= 7
		return nil
	}
	s := c.touch(req.SessionID, now)
	if s == nil {
		return protocol.ErrFetchSessionIDNotFound
	}
	left, err := s.update(run, req)
	if err == nil && !left {
		c.remove(s.id) // nothing is left to fetch; the answer names no session
	}
	return err
}

// update takes over what an incremental fetch adds, changes and forgets, and
// lists the partitions to read. It reports whether there are any.
func (s *fetchSession) update(run *fetchRun, req *kmsg.FetchRequest) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != req.SessionEpoch {
		return false, protocol.ErrInvalidFetchSessionEpoch
	}
	if s.byID != run.byID {
		return false, protocol.ErrFetchSessionTopicIDError
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			s.setLocked(fetchKeyOf(t, j), fetchWantOf(&t.Partitions[j]))
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, partition := range t.Partitions {
			s.forgetLocked(fetchKey{id: t.TopicID, name: t.Topic, partition: partition})
		}
	}
	if len(s.parts) == 0 {
		s.epoch = initialFetchEpoch // which no incremental fetch carries
		return false, nil
	}
	s.epoch = nextFetchEpoch(s.epoch)
	run.session, run.sessionEpoch = s, s.epoch
	s.beginQuietLocked(run)
	for p := s.order.next; p != &s.order; p = p.next {
		run.items = append(run.items, fetchItem{key: p.key, want: p.want, name: p.name, cached: p})
	}
	return true, nil
}

// touch returns the session that an incremental fetch names, nil for none, and counts
// it as used.
func (c *fetchSessions) touch(id int32, now time.Time) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s != nil {
		s.lastUsed = now
	}
	return s
}

func (c *fetchSessions) remove(id int32) {
	c.mu.Lock()
	s := c.byID[id]
	delete(c.byID, id)
	c.mu.Unlock()
	s.endQuiet()
}

// finish completes a fetch: it decides which items are answered, notes what the
// client is told, and returns the session id to answer, 0 for none.
func (c *fetchSessions) finish(run *fetchRun, now time.Time) (int32, error) {
	switch {
	case run.session != nil:
		return run.session.finish(run)
	case run.wantsSession:
		return c.create(run, now), nil
	}
	return noFetchSession, nil
}

// finish marks the items that have not changed, which the answer leaves out.
func (s *fetchSession) finish(run *fetchRun) (int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != run.sessionEpoch {
		// The client gave this request up and sent another one meanwhile.
		return s.id, protocol.ErrInvalidFetchSessionEpoch
	}
	for i := range run.items {
		it := &run.items[i]
		it.cached.name = it.name
		it.unchanged = !it.cached.toldLocked(it) && !(run.follower && it.missed())
		if it.size > 0 {
			s.moveLastLocked(it.cached)
		}
	}
	s.letQuietLocked(run)
	return s.id, nil
}

// create makes a session of what a full fetch asked for, if there is room.
func (c *fetchSessions) create(run *fetchRun, now time.Time) int32 {
	var evicted *fetchSession
	defer func() { evicted.endQuiet() }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= c.slots {
		if evicted = c.evictLocked(run.follower, now); evicted == nil {
			return noFetchSession // the client goes on with full fetches
		}
	}
	id := c.newID()
	for c.byID[id] != nil {
		id = c.newID()
	}
	s := newFetchSession(id, run, now)
	for i := range run.items {
		it := &run.items[i]
		p := s.setLocked(it.key, it.want) // nobody else knows s yet
		p.name = it.name
		p.toldLocked(it)
	}
	c.byID[id] = s
	return id
}

// evictLocked makes room for one session and returns the one that goes, nil where none
// may: the least recently used one, if it has been idle for long. A follower also
// displaces a consumer's that is not: sessions matter more to brokers, which fetch
// many partitions for ever. Unlike Kafka we never take a session in use from a
// consumer in favour of a larger one.
//
// It looks at all sessions: that is as many as there are slots, 1000 by default,
// and only when they are all taken and another client comes.
func (c *fetchSessions) evictLocked(forFollower bool, now time.Time) *fetchSession {
	var victim *fetchSession
	for _, s := range c.byID {
		idle := now.Sub(s.lastUsed) > c.evictAfter
		if !idle && (!forFollower || s.follower) {
			continue
		}
		if victim == nil || s.lastUsed.Before(victim.lastUsed) {
			victim = s
		}
	}
	if victim != nil {
		delete(c.byID, victim.id)
	}
	return victim
}

func fetchKeyOf(t *kmsg.FetchRequestTopic, j int) fetchKey {
	return fetchKey{id: t.TopicID, name: t.Topic, partition: t.Partitions[j].Partition}
}

func fetchWantOf(p *kmsg.FetchRequestTopicPartition) fetchWant {
	return fetchWant{
		offset:             p.FetchOffset,
		maxBytes:           p.PartitionMaxBytes,
		currentLeaderEpoch: protocol.LeaderEpoch(p.CurrentLeaderEpoch),
		lastFetchedEpoch:   protocol.LeaderEpoch(p.LastFetchedEpoch),
		logStartOffset:     p.LogStartOffset,
		highWatermark:      p.HighWatermark,
	}
}
