package raftlog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/probe"
)

// Failure by evidence: a leader whose process died is replaced at once, not
// when a timeout has passed. Its connections end and its port refuses, twice.
// Then this node hands itself a TimeoutNow, as a leader that resigns would, and
// so overrides the others' memory of the dead one. An election is safe at any
// time; what must not be is one after the other, so evidence counts once per
// term, only against the leader of the current term, only from a listener that
// has been reached before, and not if the leader is heard of meanwhile.
const (
	// refusalPause lies between the two refusals.
	refusalPause = 50 * time.Millisecond
	// rankPause is what each voter leaves to those before it: an election with
	// its fsyncs.
	rankPause = 150 * time.Millisecond
	// reachAttempts bounds the dials to a new leader, which may lead before it
	// listens.
	reachAttempts = 8
)

// sight is what Raft says of the leadership.
type sight struct {
	leader  protocol.NodeID // NoNode while there is none
	term    uint64
	contact time.Time // when the leader was last heard of
}

// suspicion is that the leader of a term is dead.
type suspicion struct {
	leader protocol.NodeID
	term   uint64
	since  time.Time
}

// holds tells whether a suspicion still stands: its leader has not been heard
// of, and there is no other.
func (s suspicion) holds(now sight) bool {
	switch now.leader {
	case protocol.NoNode:
		return true // an election is under way: ours is the next if it fails
	case s.leader:
		return now.term == s.term && !now.contact.After(s.since)
	}
	return false
}

// rank is how many voters go before this one when a leader is dead.
func rank(voters []Voter, own, dead protocol.NodeID) int {
	n := 0
	for _, v := range voters {
		if v.ID < own && v.ID != dead {
			n++
		}
	}
	return n
}

// detector follows up the evidence. Its goroutine is that of run.
type detector struct {
	own    protocol.NodeID
	voters *voters
	sight  func() sight
	dial   probe.Dial
	elect  func()
	log    zerolog.Logger

	mu      sync.Mutex
	pending suspicion // zero term for none; the newest
	met     protocol.NodeID
	reached []protocol.NodeID
	wake    chan struct{} // size 1: there is something to look at

	acted uint64 // the last term of which evidence was acted upon; run's goroutine's
}

func newDetector(cfg *Config, voters *voters, log zerolog.Logger) *detector {
	return &detector{
		own: cfg.NodeID, voters: voters, log: log, met: protocol.NoNode, wake: make(chan struct{}, 1),
		dial: func(ctx context.Context, addr string) error {
			conn, err := cfg.Dial(ctx, addr)
			if err != nil {
				return err
			}
			_ = conn.Close()
			return nil
		},
	}
}

// lost takes note of the end of a connection on which a node spoke to us. It
// does not block.
func (d *detector) lost(node protocol.NodeID) {
	now := d.sight()
	if now.leader != node {
		return
	}
	d.mu.Lock()
	d.pending = suspicion{leader: node, term: now.term, since: time.Now()}
	d.mu.Unlock()
	poke(d.wake)
}

// follow takes note of a leader, whose listener is to be reached while it lives.
func (d *detector) follow(leader protocol.NodeID) {
	d.mu.Lock()
	d.met = leader
	d.mu.Unlock()
	poke(d.wake)
}

// run follows up until ctx ends.
func (d *detector) run(ctx context.Context) {
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		met, s := d.met, d.pending
		d.met, d.pending = protocol.NoNode, suspicion{}
		d.mu.Unlock()
		if met != protocol.NoNode && met != d.own {
			d.reach(ctx, met)
		}
		if s.term != 0 {
			d.pursue(ctx, s)
		}
	}
}

func (d *detector) hasReached(node protocol.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.reached, node)
}

func (d *detector) endpoint(node protocol.NodeID) string {
	addr, _ := d.voters.endpoint(peerID{Node: node})
	return addr
}

// reach dials a leader until it has been reached once, some times.
func (d *detector) reach(ctx context.Context, node protocol.NodeID) {
	addr := d.endpoint(node)
	if addr == "" || d.hasReached(node) {
		return
	}
	pause := refusalPause
	for range reachAttempts {
		if probe.Reached(ctx, d.dial, addr) {
			d.mu.Lock()
			d.reached = append(d.reached, node)
			d.mu.Unlock()
			return
		}
		if d.sight().leader != node || !probe.Pause(ctx, pause) {
			return
		}
		pause *= 2
	}
	d.log.Warn().Int32("leader", int32(node)).Str("endpoint", addr).
		Msg("the controller's listener can not be reached: its death will be found by timeout only")
}

// pursue starts an election if the leader's process is gone.
func (d *detector) pursue(ctx context.Context, s suspicion) {
	if s.term <= d.acted || !d.hasReached(s.leader) {
		return
	}
	gone := probe.Gone(ctx, d.dial, d.endpoint(s.leader), refusalPause)
	holds := s.holds(d.sight())
	d.log.Debug().Int32("leader", int32(s.leader)).Int32("epoch", int32(s.term)).Bool("gone", gone).Bool("unheard", holds).
		Msg("looked for the controller's process")
	if !gone || !holds {
		return
	}
	if wait := time.Duration(rank(d.voters.list(), d.own, s.leader)) * rankPause; wait > 0 {
		if !probe.Pause(ctx, wait) || !s.holds(d.sight()) {
			return
		}
	}
	d.acted = s.term
	d.log.Info().Int32("leader", int32(s.leader)).Int32("epoch", int32(s.term)).Dur("after", time.Since(s.since)).
		Msg("the controller's process is gone: electing another at once")
	d.elect()
}
