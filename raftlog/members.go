package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// The voters of a dynamic quorum are what the metadata log says; Raft's membership
// follows. The leader sees to it, one change at a time: a voter that Raft does not
// have becomes a nonvoter, and a voter once it has everything; who votes in Raft
// and not in the log is removed, and a leader that is removed hands its office to
// another, who removes it. A guest is a nonvoter that is to become a voter: it is
// fed before the log says so. A crash anywhere in between leaves a difference that
// the next leader finds.

// shapePause is how soon a change that must wait, or failed, is looked at again.
const shapePause = 50 * time.Millisecond

// caughtUpAge is how long ago a server may have had everything to count as one
// that has.
const caughtUpAge = time.Second

// errTransfer ends a session whose library may refuse to lead for good: a transfer
// of the leadership that was cut short leaves it so (#696).
var errTransfer = errors.New("handing over the leadership failed")

// pokeShape says that voters or members may have changed. It does not block.
func (s *session) pokeShape() { poke(s.reshape) }

// shape leads the membership to the voters of the log, as long as ctx lasts.
func (s *session) shape(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.reshape:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if again := s.shapeOnce(ctx); again {
			timer.Reset(shapePause)
		}
	}
}

// shapeOnce makes one change, and reports whether there is more to do.
func (s *session) shapeOnce(ctx context.Context) bool {
	if l, _ := s.e.office.current(); !l.Leading {
		return false
	}
	next, ok := nextChange(s.serverOf, s.servers(), s.e.voters.list(), s.e.voters.guestList(), s.e.own)
	if !ok {
		return false
	}
	var future raft.Future
	switch next.do {
	case changeLearn:
		future = s.raft.AddNonvoter(next.id, raft.ServerAddress(next.id), 0, enqueueStep)
	case changePromote:
		if !s.caughtUp(next.id) {
			return true
		}
		future = s.raft.AddVoter(next.id, raft.ServerAddress(next.id), 0, enqueueStep)
	case changeRemove:
		future = s.raft.RemoveServer(next.id, 0, enqueueStep)
	case changeResign:
		s.handOver(ctx)
		return true
	}
	err := future.Error()
	s.e.log.Info().Err(err).Str("server", string(next.id)).Msg("quorum: " + next.do.String())
	s.e.membersChanged()
	return true
}

type change int

const (
	changeLearn change = iota
	changePromote
	changeRemove
	changeResign
)

func (c change) String() string {
	return [...]string{"a node is fed, without a vote", "a node votes", "a node is no member any more", "this node hands over the leadership"}[c]
}

type memberChange struct {
	do change
	id raft.ServerID
}

// nextChange is what leads the members closer to the voters. Who is new comes
// before who goes.
func nextChange(serverOf func(Voter) raft.ServerID, members []raft.Server, voters, guests []Voter, own raft.ServerID) (memberChange, bool) {
	if len(voters) == 0 || voters[0].DirectoryID == protocol.ZeroUUID {
		return memberChange{}, false
	}
	wanted := make(map[raft.ServerID]bool) // and whether it votes
	for _, v := range guests {
		wanted[serverOf(v)] = false
	}
	for _, v := range voters {
		wanted[serverOf(v)] = true
	}
	have := make(map[raft.ServerID]raft.ServerSuffrage)
	for _, m := range members {
		have[m.ID] = m.Suffrage
	}
	for _, v := range slices.Concat(voters, guests) {
		id := serverOf(v)
		suffrage, ok := have[id]
		switch {
		case !ok:
			return memberChange{changeLearn, id}, true
		case suffrage != raft.Voter && wanted[id]:
			return memberChange{changePromote, id}, true
		}
	}
	for _, m := range members {
		if _, ok := wanted[m.ID]; !ok && m.ID != own {
			return memberChange{changeRemove, m.ID}, true
		}
	}
	if _, ok := wanted[own]; !ok {
		return memberChange{changeResign, own}, true
	}
	return memberChange{}, false
}

// serverOf is the id under which a voter is a member, or would become one. One
// that began with its node id keeps it, as long as its directory is the pinned one.
func (s *session) serverOf(v Voter) raft.ServerID {
	plain := serverID(v.ID)
	if v.DirectoryID == protocol.ZeroUUID {
		return plain
	}
	pinned := s.e.pins.of(v.ID)
	if v.ID == s.e.cfg.NodeID {
		pinned = s.e.cfg.DirectoryID
	}
	if _, ok := s.member(plain); ok && pinned == v.DirectoryID {
		return plain
	}
	return v.peer().server()
}

// caughtUp tells whether a server has all of the log, or had a moment ago.
func (s *session) caughtUp(id raft.ServerID) bool {
	return time.Since(s.e.acks.in(id, s.raft.CurrentTerm()).caughtUp) < caughtUpAge
}

// handOver hands the leadership to another voter, with nothing in flight.
func (s *session) handOver(ctx context.Context) {
	select {
	case s.e.turn <- struct{}{}:
		defer func() { <-s.e.turn }()
	case <-ctx.Done():
		return
	}
	heir, ok := s.heir()
	if !ok || s.raft.State() != raft.Leader {
		return
	}
	s.e.log.Info().Str("to", string(heir.ID)).Msg("this node is no voter any more: handing over the leadership")
	s.handTo(heir)
}

// handTo hands the leadership to a server; where that fails the session ends.
func (s *session) handTo(heir raft.Server) {
	if err := s.raft.LeadershipTransferToServer(heir.ID, heir.Address).Error(); err != nil {
		select {
		case s.unfit <- fmt.Errorf("%w: %w", errTransfer, err):
		default:
		}
	}
}

// Invite has a leader feed a node that is to become a voter.
func (e *Engine) Invite(v Voter) {
	e.voters.invite(v)
	e.reshape()
}

// Uninvite ends that. A node that votes by then stays a member.
func (e *Engine) Uninvite(v Voter) {
	e.voters.uninvite(v)
	e.reshape()
}

func (e *Engine) reshape() {
	if s := e.session.Load(); s != nil {
		s.pokeShape()
	}
}

// Membership is what a server is in Raft.
type Membership struct {
	Member, Votes, CaughtUp bool
}

// Member tells what a voter, or one that is to become one, is in Raft now. The
// channel is closed at the next change of the membership that this leader makes.
func (e *Engine) Member(v Voter) (Membership, <-chan struct{}) {
	e.membersMu.Lock()
	changed := e.membersChange
	e.membersMu.Unlock()
	s := e.session.Load()
	if s == nil {
		return Membership{}, changed
	}
	id := s.serverOf(v)
	m, ok := s.member(id)
	return Membership{Member: ok, Votes: ok && m.Suffrage == raft.Voter, CaughtUp: s.caughtUp(id)}, changed
}

// Settled tells whether Raft's members are the voters, and nobody else, or whoever
// is left out is this node.
func (e *Engine) Settled() bool {
	s := e.session.Load()
	if s == nil {
		return false
	}
	next, more := nextChange(s.serverOf, s.servers(), e.voters.list(), e.voters.guestList(), e.own)
	return !more || next.do == changeResign
}

// IsMember tells whether this node is a member of the quorum, as far as it knows;
// known is false while it does not run.
func (e *Engine) IsMember() (member, known bool) {
	s := e.session.Load()
	if s == nil {
		return false, false
	}
	_, member = s.member(e.own)
	return member, true
}

// Directory is the directory that a voter of a static quorum has been seen with.
func (e *Engine) Directory(id protocol.NodeID) (protocol.UUID, bool) {
	if id == e.cfg.NodeID {
		return e.cfg.DirectoryID, true
	}
	d := e.pins.of(id)
	return d, d != protocol.ZeroUUID
}

func (e *Engine) membersChanged() {
	e.membersMu.Lock()
	defer e.membersMu.Unlock()
	close(e.membersChange)
	e.membersChange = make(chan struct{})
}
