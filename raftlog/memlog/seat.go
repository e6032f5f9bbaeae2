package memlog

import (
	"context"
	"fmt"
	"sync"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// seat is what both kinds of log have in front: who leads, and whose turn it is to
// propose.
type seat struct {
	turn chan struct{} // size 1: the one proposal on its way
	dead chan struct{} // closed with err

	mu      sync.Mutex
	running bool
	err     error
	cur     raftlog.Leadership
	changed chan struct{}
}

func newSeat() seat {
	return seat{
		turn: make(chan struct{}, 1), dead: make(chan struct{}),
		cur:     raftlog.Leadership{Leader: protocol.NoNode, Offset: raftlog.Skipped},
		changed: make(chan struct{}),
	}
}

// proposal is an entry on its way that is not committed.
type proposal struct {
	entry  raftlog.Entry
	answer chan answer // size 1: the proposer may have gone
}

type answer struct {
	offset int64
	err    error
}

// claim waits for a turn to propose data; settle ends it.
func (s *seat) claim(ctx context.Context, data []byte) error {
	if len(data) > raftlog.MaxEntryBytes {
		return protocol.ErrRecordListTooLarge
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", protocol.ErrNotController, ctx.Err())
	case <-s.dead:
		return protocol.ErrNotController
	}
}

// refuse ends the turn of who may not propose in an epoch.
func (s *seat) refuse(epoch protocol.ControllerEpoch) error {
	<-s.turn
	return fmt.Errorf("propose in epoch %d: %w", epoch, protocol.ErrNotController)
}

// leadsLocked tells whether this node leads in an epoch.
func (s *seat) leadsLocked(epoch protocol.ControllerEpoch) bool {
	return s.running && s.cur.Leading && s.cur.Epoch == epoch
}

// await waits for a proposal's fate.
func (p *proposal) await(ctx context.Context) (int64, error) {
	select {
	case a := <-p.answer:
		return a.offset, a.err
	case <-ctx.Done():
		// Its turn ends when its fate is known.
		return raftlog.Skipped, fmt.Errorf("%w: %w", raftlog.ErrUnknownOutcome, ctx.Err())
	}
}

// tell tells a proposer its entry's fate, unless it has been told already that nobody
// knows.
func (p *proposal) tell(a answer) {
	select {
	case p.answer <- a:
	default:
	}
}

// settle tells a proposer its entry's fate, and lets the next one have a turn.
func (s *seat) settle(p *proposal, a answer) {
	p.tell(a)
	<-s.turn
}

// failLocked ends the log; false where it has ended.
func (s *seat) failLocked(err error) bool {
	if s.err != nil {
		return false
	}
	s.err = err
	close(s.dead)
	return true
}

// Leadership returns the latest state and a channel closed at the next change.
func (s *seat) Leadership() (raftlog.Leadership, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur, s.changed
}

func (s *seat) publish(to raftlog.Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked(to)
}

func (s *seat) publishLocked(to raftlog.Leadership) {
	if to == s.cur {
		return
	}
	s.cur = to
	close(s.changed)
	s.changed = make(chan struct{})
}
