package fetcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// key names a partition on the wire.
type key struct {
	topic     protocol.UUID
	partition int32
}

func keyOf(p *replica.Partition) key { return key{p.TopicID(), p.TopicPartition().Partition} }

// fetcher pulls from one broker.
type fetcher struct {
	pool *Pool
	share
	log     zerolog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	started bool // guarded by Pool.mu

	// changed has size 1: a token says that there are other partitions than at
	// the last look.
	changed chan struct{}
	mu      sync.Mutex
	entries map[key]*entry
	// queue are those to look at before the next fetch: whose position may be another
	// than the leader was told. resting are those that rest.
	queue, resting []*entry

	// Of run's goroutine.
	conn    Conn
	session session
	failing bool      // the last round failed, and was logged
	looked  time.Time // when all positions were last looked at
}

// entry is one partition that is pulled.
type entry struct {
	key       key
	partition *replica.Partition
	// Guarded by fetcher.mu: whether it is in the queue, and when its rest after a
	// failure ends, zero where it has none.
	queued bool
	until  time.Time
	// at is the position that the leader was told in this session. Of run's goroutine.
	at replica.Position
	// rested is how long it has rested since it was last well. Of run's goroutine.
	rested time.Duration
	// synced: nothing was appended since it was last seen to that what must be synced
	// is. Of run's goroutine.
	synced bool
}

// want is what one partition asks for.
type want struct {
	*entry
	at replica.Position
}

func newFetcher(p *Pool, s share) *fetcher {
	f := &fetcher{
		pool: p, share: s, log: p.log.With().Int32("leader", int32(s.source)).Int("fetcher", s.number).Logger(),
		changed: make(chan struct{}, 1), entries: make(map[key]*entry),
	}
	f.ctx, f.cancel = context.WithCancel(p.ctx)
	return f
}

// add pulls for partitions, without a rest that an earlier failure gave them.
func (f *fetcher) add(partitions []*replica.Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range partitions {
		e := &entry{key: keyOf(p), partition: p}
		f.entries[e.key] = e
		f.lookAtLocked(e)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// remove returns how many are left.
func (f *fetcher) remove(p *replica.Partition) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.entries[keyOf(p)]; e != nil {
		delete(f.entries, e.key)
		f.lookAtLocked(e)
	}
	return len(f.entries)
}

// lookAtLocked has an entry's position looked at before the next fetch.
func (f *fetcher) lookAtLocked(e *entry) {
	if !e.queued {
		e.queued = true
		f.queue = append(f.queue, e)
	}
}

// lookAtAllLocked is lookAtLocked for all.
func (f *fetcher) lookAtAllLocked() {
	for _, e := range f.entries {
		f.lookAtLocked(e)
	}
}

// firstRest is the rest after the first failure: the leader may know of its
// leadership a few milliseconds later than this broker does.
const firstRest = 20 * time.Millisecond

// rest leaves a partition alone for a while, for longer each time until Backoff.
func (f *fetcher) rest(e *entry) {
	f.session.forget(e.key)
	f.mu.Lock()
	defer f.mu.Unlock()
	e.rested = min(max(firstRest, 2*e.rested), f.pool.cfg.Backoff)
	if e.until.IsZero() {
		f.resting = append(f.resting, e)
	}
	e.until = time.Now().Add(e.rested)
}

// run pulls until the fetcher is told to end.
func (f *fetcher) run() {
	defer f.cancel()
	defer f.disconnect()
	for f.ctx.Err() == nil {
		wants, next := f.wants(time.Now())
		if len(wants) == 0 && len(f.session.known) == 0 {
			f.pause(next)
			continue
		}
		err := f.round(wants, next)
		switch {
		case err == nil:
			f.failing = false
		case f.ctx.Err() == nil:
			f.disconnect()
			if !f.failing { // a broker that is away is told of once
				f.failing = true
				f.log.Warn().Err(err).Int("partitions", f.count()).Msg("fetch failed, is tried again")
			}
			f.pause(f.pool.cfg.Backoff)
		}
	}
}

// lookAtAll is how often all positions are looked at, also those that nothing has
// changed as far as is known here: retention moves the start of a log.
const lookAtAll = 30 * time.Second

// wants is what the leader has to be told of before the next fetch, and when the next
// rest ends, or what a throttle holds may go, −1 where nothing does. What is not to be
// fetched now the session forgets.
func (f *fetcher) wants(now time.Time) ([]want, time.Duration) {
	queue, next := f.due(now)
	var wants []want
	for _, e := range queue {
		at, ok := e.partition.Position()
		if !ok || at.Leader != f.source {
			f.session.forget(e.key)
			continue
		}
		if at.Throttled {
			if held := f.pool.cfg.Throttle.Wait(); held > 0 {
				if next < 0 || held < next {
					next = held
				}
				f.session.forget(e.key)
				f.lookAt(e)
				continue
			}
		}
		wants = append(wants, want{e, at})
	}
	return wants, next
}

// due empties the queue, with those whose rest is over.
func (f *fetcher) due(now time.Time) (queue []*entry, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next = -1
	if len(f.resting) > 0 {
		f.resting = slices.DeleteFunc(f.resting, func(e *entry) bool {
			left := e.until.Sub(now)
			if left > 0 {
				if next < 0 || left < next {
					next = left
				}
				return false
			}
			e.until = time.Time{}
			f.lookAtLocked(e)
			return true
		})
	}
	if now.Sub(f.looked) > lookAtAll {
		f.looked = now
		f.lookAtAllLocked()
	}
	queue = f.queue
	f.queue = nil
	n := 0
	for _, e := range queue {
		e.queued = false
		switch current := f.entries[e.key]; {
		case current == nil:
			f.session.forget(e.key)
		case current == e && e.until.IsZero():
			queue[n] = e
			n++
		}
	}
	return queue[:n], next
}

func (f *fetcher) lookAt(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookAtLocked(e)
}

func (f *fetcher) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries)
}

// endSession has the leader told of everything again, in another session.
func (f *fetcher) endSession() {
	f.session = session{id: f.session.id}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookAtAllLocked()
}

// pause waits for other partitions or, where it is not negative, for a time.
func (f *fetcher) pause(d time.Duration) {
	var over <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-f.changed:
	case <-over:
	case <-f.ctx.Done():
	}
}

// round is one fetch and what comes of it. Where next is not negative there is more to
// ask for then.
func (f *fetcher) round(wants []want, next time.Duration) error {
	if err := f.connect(); err != nil {
		return err
	}
	if wants = f.flush(wants); len(wants) == 0 && len(f.session.known) == 0 {
		return nil
	}
	req := f.session.request(wants)
	cfg := &f.pool.cfg
	req.ReplicaID = int32(cfg.Node)
	req.ReplicaState.ID, req.ReplicaState.Epoch = int32(cfg.Node), int64(cfg.Epoch())
	wait := cfg.MaxWait
	if next >= 0 {
		wait = min(wait, next+time.Millisecond)
	}
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), cfg.MinBytes, cfg.MaxBytes
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			req.Topics[i].Partitions[j].PartitionMaxBytes = cfg.PartitionBytes
		}
	}
	answer, err := f.request(req, cfg.MaxWait+cfg.Timeout)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		return fmt.Errorf("a fetch is answered with %T", answer)
	}
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		if code == protocol.ErrFetchSessionIDNotFound {
			f.session.id = 0
		}
		f.endSession()
		if code == protocol.ErrFetchSessionIDNotFound || code == protocol.ErrInvalidFetchSessionEpoch {
			return nil // the next one begins another session
		}
		return code
	}
	asked := f.session.known
	if !f.session.answered(resp.SessionID) {
		f.endSession()
	}
	return f.take(resp, asked)
}

// flushes is how many partitions are synced at a time: a file system commits for all
// who wait at once.
const flushes = 16

// flush syncs what must be before the leader counts it (flush.messages), and leaves
// out partitions that can not. It is here, not where records are appended, so that
// partitions of one answer are synced together.
func (f *fetcher) flush(wants []want) []want {
	var due []want
	for _, w := range wants {
		if w.synced {
			continue
		}
		w.synced = true
		if w.partition.FollowedDue() {
			due = append(due, w)
		}
	}
	if len(due) == 0 {
		return wants
	}
	errs := make([]error, len(due))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(flushes, len(due)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = due[i].partition.FlushFollowed(due[i].at)
			}
		})
	}
	for i := range due {
		next <- i
	}
	close(next)
	workers.Wait()
	failed := make(map[*entry]bool)
	for i, err := range errs {
		if err != nil {
			due[i].synced = false
			failed[due[i].entry] = true
			f.done(due[i], err)
			f.lookAt(due[i].entry)
		}
	}
	return slices.DeleteFunc(wants, func(w want) bool { return failed[w.entry] })
}

var errUnknownAddress = errors.New("the metadata has no address of it for brokers")

// dialTimeout bounds an attempt to connect: the system asks again at growing
// intervals, so that after a cut a new attempt is faster than one that is under way.
const dialTimeout = 4 * time.Second

func (f *fetcher) connect() error {
	if f.conn != nil {
		return nil
	}
	addr, ok := f.pool.cfg.Addr(f.source)
	if !ok {
		return errUnknownAddress
	}
	ctx, cancel := context.WithTimeout(f.ctx, min(f.pool.cfg.Timeout, dialTimeout))
	defer cancel()
	conn, err := f.pool.cfg.Dial(ctx, addr)
	if err != nil {
		return err
	}
	f.conn = conn
	return nil
}

func (f *fetcher) disconnect() {
	f.endSession()
	if f.conn != nil {
		_ = f.conn.Close() // of no further use, whatever it says
		f.conn = nil
	}
}

func (f *fetcher) request(req kmsg.Request, timeout time.Duration) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(f.ctx, timeout)
	defer cancel()
	return f.conn.Request(ctx, req)
}
