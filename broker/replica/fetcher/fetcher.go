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

	// Of run's goroutine.
	conn    Conn
	session session
	failing bool // the last round failed, and was logged
	// held is how long the throttle keeps partitions back, 0 where it does not.
	held time.Duration
}

// entry is one partition that is pulled.
type entry struct {
	partition *replica.Partition
	// until is when its rest after a failure ends. Guarded by fetcher.mu.
	until time.Time
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
		f.entries[keyOf(p)] = &entry{partition: p}
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
	delete(f.entries, keyOf(p))
	return len(f.entries)
}

// firstRest is the rest after the first failure: the leader may know of its
// leadership a few milliseconds later than this broker does.
const firstRest = 20 * time.Millisecond

// rest leaves a partition alone for a while, for longer each time until Backoff.
func (f *fetcher) rest(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.rested = min(max(firstRest, 2*e.rested), f.pool.cfg.Backoff)
	e.until = time.Now().Add(e.rested)
}

// run pulls until the fetcher is told to end.
func (f *fetcher) run() {
	defer f.cancel()
	defer f.disconnect()
	for f.ctx.Err() == nil {
		wants, next := f.wants(time.Now())
		if len(wants) == 0 {
			f.pause(next)
			continue
		}
		err := f.round(wants)
		switch {
		case err == nil:
			f.failing = false
		case f.ctx.Err() == nil:
			f.disconnect()
			if !f.failing { // a broker that is away is told of once
				f.failing = true
				f.log.Warn().Err(err).Int("partitions", len(wants)).Msg("fetch failed, is tried again")
			}
			f.pause(f.pool.cfg.Backoff)
		}
	}
}

// wants is what is to be fetched now, and, where that is nothing, when the next
// rest ends, or what a throttle holds may go.
func (f *fetcher) wants(now time.Time) ([]want, time.Duration) {
	f.mu.Lock()
	entries := make([]*entry, 0, len(f.entries))
	next := time.Duration(-1)
	for _, e := range f.entries {
		if left := e.until.Sub(now); left > 0 {
			if next < 0 || left < next {
				next = left
			}
			continue
		}
		entries = append(entries, e)
	}
	f.mu.Unlock()
	f.held = 0
	wants := make([]want, 0, len(entries))
	for _, e := range entries {
		at, ok := e.partition.Position()
		if !ok || at.Leader != f.source {
			continue
		}
		if at.Throttled {
			if held := f.pool.cfg.Throttle.Wait(); held > 0 {
				f.held = held
				continue
			}
		}
		wants = append(wants, want{e, at})
	}
	if f.held > 0 && (next < 0 || f.held < next) {
		next = f.held
	}
	return wants, next
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

// round is one fetch and what comes of it.
func (f *fetcher) round(wants []want) error {
	if err := f.connect(); err != nil {
		return err
	}
	if wants = f.flush(wants); len(wants) == 0 {
		return nil
	}
	req, asked := f.session.request(wants)
	cfg := &f.pool.cfg
	req.ReplicaID = int32(cfg.Node)
	req.ReplicaState.ID, req.ReplicaState.Epoch = int32(cfg.Node), int64(cfg.Epoch())
	wait := cfg.MaxWait
	if f.held > 0 {
		wait = min(wait, f.held+time.Millisecond) // then there is more to ask for
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
		f.session = session{}
		if code == protocol.ErrFetchSessionIDNotFound || code == protocol.ErrInvalidFetchSessionEpoch {
			return nil // the next one begins another session
		}
		return code
	}
	f.session.answered(resp.SessionID, asked)
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
		}
	}
	return slices.DeleteFunc(wants, func(w want) bool { return failed[w.entry] })
}

var errUnknownAddress = errors.New("the metadata has no address of it for brokers")

func (f *fetcher) connect() error {
	if f.conn != nil {
		return nil
	}
	addr, ok := f.pool.cfg.Addr(f.source)
	if !ok {
		return errUnknownAddress
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.pool.cfg.Timeout)
	defer cancel()
	conn, err := f.pool.cfg.Dial(ctx, addr)
	if err != nil {
		return err
	}
	f.conn = conn
	return nil
}

func (f *fetcher) disconnect() {
	f.session = session{}
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
