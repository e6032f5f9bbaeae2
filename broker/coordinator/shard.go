package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// shard is one partition under one leadership. Its loop alone touches the
// machine.
type shard struct {
	cfg       *Config
	log       zerolog.Logger
	topicID   protocol.UUID
	partition int32
	epoch     protocol.LeaderEpoch
	wake      chan struct{} // size 1: the queue or the state changed; more adds nothing

	// mu guards the queue. It is a leaf.
	mu     sync.Mutex
	phase  phase
	queue  []queued
	cancel context.CancelFunc // of the loop, nil before it runs
	calls  int                // of the queue's entries, those that are owed an answer
	tokens Token

	// The loop's.
	machine Machine
	replica Partition
	timers  timers
	pending map[Token]*Call  // owed an answer, by the machine
	last    replica.Appended // what the state was decided on ends here
	written bool             // last is set
}

type phase int8

const (
	loading phase = iota
	active
	ended
)

// queued is an event in the queue; call is nil where nobody waits.
type queued struct {
	event any
	token Token
	call  *Call
}

func newShard(c *Coordinator, topicID protocol.UUID, partition int32, epoch protocol.LeaderEpoch) *shard {
	return &shard{
		cfg: &c.cfg, log: c.log.With().Int32("partition", partition).Int32("leader_epoch", int32(epoch)).Logger(),
		topicID: topicID, partition: partition, epoch: epoch,
		wake: make(chan struct{}, 1), pending: make(map[Token]*Call),
	}
}

// close ends the shard and answers what is queued; the loop answers the rest.
func (s *shard) close() {
	s.mu.Lock()
	if s.phase == ended {
		s.mu.Unlock()
		return
	}
	s.phase = ended
	queue := s.queue
	s.queue = nil
	cancel := s.cancel
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	refuse(queue)
}

func refuse(queue []queued) {
	for _, q := range queue {
		if q.call != nil {
			q.call.decided <- decision{err: protocol.ErrNotCoordinator}
		}
	}
}

func (s *shard) submit(event any) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == ended:
		return refused(protocol.ErrNotCoordinator)
	case s.phase == loading, s.calls >= s.cfg.QueueLength:
		return refused(protocol.ErrCoordinatorLoadInProgress)
	}
	s.tokens++
	s.calls++
	call := &Call{decided: make(chan decision, 1), patience: s.cfg.CommitTimeout}
	s.queue = append(s.queue, queued{event: event, token: s.tokens, call: call})
	s.signal()
	return call
}

func (s *shard) tell(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != ended {
		s.queue = append(s.queue, queued{event: event})
		s.signal()
	}
}

func (s *shard) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (s *shard) take() []queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	s.queue, s.calls = nil, 0
	return queue
}

// begin tells the shard how its loop is stopped; false where it ended before.
func (s *shard) begin(cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	return s.phase != ended
}

// run is the loop: load, then one event after the other until the shard ends.
func (s *shard) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.begin(cancel) {
		return
	}
	defer s.end()
	if !s.takeOver(ctx) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.timers.next(time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			for _, q := range s.take() {
				if q.call != nil {
					s.pending[q.token] = q.call
				}
				s.follow(s.machine.Handle(time.Now(), q.token, q.event))
			}
		case <-timer.C:
			for event, ok := s.timers.due(time.Now()); ok; event, ok = s.timers.due(time.Now()) {
				s.follow(s.machine.Handle(time.Now(), NoToken, event))
			}
		}
	}
}

// end answers all who wait.
func (s *shard) end() {
	s.close()
	for token, call := range s.pending {
		delete(s.pending, token)
		call.decided <- decision{err: protocol.ErrNotCoordinator}
	}
	s.log.Info().Msg("partition's coordinator ended")
}

// follow does what an outcome asks for.
func (s *shard) follow(o Outcome) {
	for {
		var err error
		if len(o.Records) > 0 {
			if err = s.append(&o); err != nil {
				s.log.Warn().Err(err).Msg("records of a coordinator were not appended")
				err = clientError(err)
			}
		}
		for _, t := range o.Timers {
			s.timers.set(t, time.Now())
		}
		for _, r := range o.Replies {
			if err != nil && o.Then == nil {
				r.Answer, r.Err = nil, err
			}
			s.reply(r)
		}
		if o.Then == nil {
			return
		}
		o = o.Then(err)
	}
}

// reply decides a call. Its caller waits for the commit of what it was decided on.
func (s *shard) reply(r Reply) {
	call, ok := s.pending[r.To]
	if !ok {
		if r.To != NoToken {
			panic(fmt.Sprintf("coordinator: call %d of %s-%d is answered twice", r.To, s.cfg.Topic, s.partition))
		}
		return
	}
	delete(s.pending, r.To)
	d := decision{answer: r.Answer, err: r.Err}
	if s.written {
		d.from, d.after = s.replica, s.last
	}
	call.decided <- d
}
