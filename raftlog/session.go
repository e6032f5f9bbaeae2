package raftlog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// settleTimeout is how long a stop waits for the entry in flight.
const settleTimeout = 2 * time.Second

// stopTimeout is how long a stop waits for the library. It is passed only
// where the state machine or the disk hangs.
const stopTimeout = 10 * time.Second

// session is one life of the library: from NewRaft to its shutdown.
type session struct {
	e       *Engine
	raft    *raft.Raft
	fsm     *fsm
	streams *streams
	trans   *transport
	herald  *herald
	detect  *detector     // nil where failures are found by timeout only
	wake    chan struct{} // size 1: something about leadership may have changed
	reshape chan struct{} // size 1: voters or members may have changed
	unfit   chan error    // size 1: the library can not go on in this session
}

// elect starts an election at once, where this node has a vote; it reports whether
// it has.
func (s *session) elect() bool {
	if _, votes := s.membership(s.e.own); !votes {
		return false
	}
	s.trans.inject(&raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}})
	return true
}

// sight is what Raft says of the leadership now.
func (s *session) sight() sight {
	r := s.trans.raft.Load()
	if r == nil {
		return sight{leader: protocol.NoNode}
	}
	_, leader := r.LeaderWithID()
	return sight{leader: nodeOf(leader), term: r.CurrentTerm(), contact: r.LastContact()}
}

// poke wakes watch. It never blocks: Raft's main loop calls it.
func (s *session) poke() { poke(s.wake) }

// newSession puts together what a life of the library has around it; nothing runs yet.
func (e *Engine) newSession() *session {
	s := &session{
		e: e, fsm: newFSM(e.cfg.StateMachine, e.fail, e.applied),
		wake: make(chan struct{}, 1), reshape: make(chan struct{}, 1), unfit: make(chan error, 1),
	}
	s.fsm.applying = s.pokeShape
	s.streams = newStreams(&e.cfg, e.own, e.voters, e.pins)
	s.streams.store, s.streams.member = e.store, s.membership
	s.trans = newTransport(s.streams, rpcTimeout, e.log, &e.acks)
	s.herald = newHerald(e.own, s.trans, &e.acks)
	s.trans.acked = s.herald.acked
	if e.cfg.FastFailureDetection {
		s.detect = newDetector(&e.cfg, e.voters, e.log)
		s.detect.sight = s.sight
		s.detect.elect = func() {
			if s.elect() {
				e.hurried.Add(1)
			}
		}
		s.streams.ended = s.detect.lost
	}
	return s
}

// runSession starts the library and returns after it has ended: with nil when
// ctx is done, errSnapshotLoop, errTransfer, or the fatal error.
func (e *Engine) runSession(ctx context.Context) error {
	s := e.newSession()
	// Size 0: the library waits until the word is heard.
	notify := make(chan bool)
	if err := s.start(notify); err != nil {
		_ = s.trans.Close()
		return err
	}

	var background, watcher sync.WaitGroup
	ended := make(chan struct{})
	background.Go(s.trans.forward)
	background.Go(func() { s.hear(notify, ended) })
	s.herald.start = func(peer raft.ServerID, wake <-chan struct{}) {
		background.Go(func() { s.herald.run(peer, wake, ended) })
	}
	watchCtx, stopWatch := context.WithCancel(ctx)
	watcher.Go(func() { s.watch(watchCtx) })
	watcher.Go(func() { s.shape(watchCtx) })
	if s.detect != nil {
		watcher.Go(func() { s.detect.run(watchCtx) })
	}
	if s.alone() {
		// Nobody else can have been elected, so there is nobody to wait for.
		background.Go(func() { s.elect() })
	}
	e.session.Store(s)

	var err error
	select {
	case <-ctx.Done():
	case <-e.fail.dead:
		err = e.fail.get()
	case <-s.fsm.looping:
		err = errSnapshotLoop
	case err = <-s.unfit:
	}

	stopWatch()
	watcher.Wait()
	e.office.heard(false)
	if err == nil {
		s.settle()
		s.resign()
	}
	stopped := s.shutdown()
	close(ended)
	if !stopped {
		e.logs.hung.Store(true)
		if err == nil {
			err = fmt.Errorf("raft has not ended after %s: the state machine or the disk hangs", stopTimeout)
		}
		return err
	}
	background.Wait()
	e.applied = s.fsm.applied.Load()
	e.session.Store(nil)
	if err == nil {
		err = e.fail.get()
	}
	return err
}

// start makes the library. It restores the newest snapshot on this goroutine.
func (s *session) start(notify chan<- bool) (err error) {
	e := s.e
	defer func() {
		// The library panics on some of what it reads at the start.
		if r := recover(); r != nil {
			err = fmt.Errorf("start raft: %v", r)
		}
		if ferr := e.fail.get(); ferr != nil {
			err = ferr
		}
	}()
	e.stable.onChange(s.poke)
	e.logs.start()
	s.raft, err = raft.NewRaft(e.cfg.library(e.own, notify), s.fsm, e.logs, e.stable, e.snaps, s.trans)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	e.logs.guarded.Store(true)
	s.fsm.started.Store(true)
	s.trans.raft.Store(s.raft)
	// An observer without a channel can neither block nor miss anything: its
	// filter is called for each event.
	s.raft.RegisterObserver(raft.NewObserver(nil, false, func(*raft.Observation) bool {
		s.poke()
		return false
	}))
	if !e.voters.dynamic() && e.cfg.static() {
		if err := sameVoters(&e.cfg, s.raft.GetConfiguration().Configuration()); err != nil {
			s.shutdown()
			return err
		}
	}
	return nil
}

// hear drains the library's leadership channel, on which it blocks. This
// goroutine never calls the library.
func (s *session) hear(notify <-chan bool, ended <-chan struct{}) {
	for {
		select {
		case leading := <-notify:
			s.e.office.heard(leading)
			s.poke()
		case <-ended:
			return
		}
	}
}

// leader is who leads, and in which term. The library forgets a leader before it
// takes another term, so both are of one moment where the term has not moved:
// observers are told both, and two leaders of one epoch would stop a Kafka broker.
func (s *session) leader() (protocol.NodeID, uint64) {
	for {
		term := s.raft.CurrentTerm()
		_, leader := s.raft.LeaderWithID()
		if s.raft.CurrentTerm() == term {
			return nodeOf(leader), term
		}
	}
}

// watch follows what has been heard: takes office, or tells who else leads,
// and keeps quorum-state.
func (s *session) watch(ctx context.Context) {
	e := s.e
	var taken uint64
	var written quorumState
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.herald.follow(s.servers())
		s.pokeShape()
		leading, word := e.office.listen()
		switch {
		case !leading:
			if taken != 0 {
				e.log.Info().Msg("no longer controller")
				taken = 0
			}
			leader, term := s.leader()
			e.office.follow(leader, protocol.ControllerEpoch(term))
			if s.detect != nil {
				s.detect.follow(leader)
			}
		case word != taken && s.takeOffice(ctx, word):
			taken = word
		}
		l := e.office.elected()
		if l.Leader == protocol.NoNode || (l.Leader == written.LeaderID && l.Epoch == written.LeaderEpoch && written.CurrentVoters != nil) {
			continue
		}
		written = newQuorumState(l.Leader, l.Epoch, e.voters.list())
		if err := written.write(e.cfg.Dir); err != nil {
			e.fail.set(err)
			return
		}
		if !l.Leading {
			e.log.Info().Int32("leader", int32(l.Leader)).Int32("epoch", int32(l.Epoch)).Msg("following a controller")
		}
	}
}

// takeOffice proposes the first entry of a leadership, and publishes the
// leadership once it is applied here: then so is everything before it.
func (s *session) takeOffice(ctx context.Context, word uint64) bool {
	e := s.e
	if !e.cfg.static() && (e.cfg.LogVoters == nil || len(e.cfg.LogVoters()) == 0) {
		// The first entry says who the voters are unless the log has said so, which
		// it may have in entries that are not applied yet.
		if err := s.raft.Barrier(0).Error(); err != nil {
			return false
		}
	}
	for ctx.Err() == nil {
		// The term may be newer than the leadership that was heard of, or gone
		// when the entry is appended. The term in which it was tells.
		epoch := protocol.ControllerEpoch(s.raft.CurrentTerm())
		res, err := s.append(ctx, e.cfg.FirstEntry(epoch))
		if err != nil {
			e.log.Info().Err(err).Int32("epoch", int32(epoch)).Msg("lost the leadership before its first entry")
			return false
		}
		if res.term != uint64(epoch) {
			continue
		}
		if res.offset == Skipped {
			e.fail.set(fmt.Errorf("the state machine skipped the first entry of epoch %d", epoch))
			return false
		}
		if !e.office.take(word, Leadership{Leading: true, Epoch: epoch, Leader: e.cfg.NodeID, Offset: res.offset}) {
			return false
		}
		e.log.Info().Int32("epoch", int32(epoch)).Int64("offset", res.offset).Msg("elected controller")
		return true
	}
	return false
}

// alone reports whether this node is the only voter.
func (s *session) alone() bool {
	voters := slices.DeleteFunc(slices.Clone(s.servers()), func(m raft.Server) bool { return m.Suffrage != raft.Voter })
	return len(voters) == 1 && voters[0].ID == s.e.own
}

// servers are the members of the quorum as this node's log has them last.
func (s *session) servers() []raft.Server { return s.raft.GetConfiguration().Configuration().Servers }

// membership tells what a server is, as this node's log has it last.
func (s *session) membership(id raft.ServerID) (member, votes bool) {
	if s.trans.raft.Load() == nil {
		return false, false
	}
	m, ok := s.member(id)
	return ok, ok && m.Suffrage == raft.Voter
}

func (s *session) member(id raft.ServerID) (raft.Server, bool) {
	servers := s.servers()
	i := slices.IndexFunc(servers, func(m raft.Server) bool { return m.ID == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return servers[i], true
}

// settle waits for the entry in flight, so that its proposer learns its fate,
// and keeps its place, so that none follows.
func (s *session) settle() {
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case s.e.turn <- struct{}{}:
	case <-s.e.fail.dead:
	case <-timer.C:
	}
}

// resign hands leadership to a voter that has everything, so that a clean stop
// of the leader costs a few milliseconds instead of an election timeout. A
// transfer can leave the library unfit to lead (#696), which does not matter to
// one that is about to end.
func (s *session) resign() {
	if s.raft.State() != raft.Leader {
		return
	}
	if srv, ok := s.heir(); ok {
		if err := s.raft.LeadershipTransferToServer(srv.ID, srv.Address).Error(); err != nil {
			s.e.log.Info().Err(err).Str("to", string(srv.ID)).Msg("could not hand over the leadership")
		}
	}
}

// heir is a voter that has all of the log.
func (s *session) heir() (raft.Server, bool) {
	last, term := s.raft.LastIndex(), s.raft.CurrentTerm()
	for _, srv := range s.servers() {
		if srv.ID != s.e.own && srv.Suffrage == raft.Voter && s.e.acks.in(srv.ID, term).index >= last {
			return srv, true
		}
	}
	return raft.Server{}, false
}

// shutdown ends the library and its connections; false if it does not end.
func (s *session) shutdown() bool {
	future := s.raft.Shutdown()
	_ = s.trans.Close()
	done := make(chan struct{})
	go func() {
		_ = future.Error()
		s.streams.wait()
		close(done)
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
