package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Members is Raft's membership, which follows the voters of the log: a
// raftlog.Engine.
type Members interface {
	// Invite has a node be fed that is to become a voter, until Uninvite.
	Invite(raftlog.Voter)
	Uninvite(raftlog.Voter)
	// Member tells what a node is in Raft; the channel is closed at the next change.
	Member(raftlog.Voter) (raftlog.Membership, <-chan struct{})
	// Settled tells whether the members are the voters of the log.
	Settled() bool
	// Directory is the directory that a voter of a static quorum has been seen with.
	Directory(protocol.NodeID) (protocol.UUID, bool)
}

// Voters is what it takes to change the voters while they vote (KIP-853).
type Voters struct {
	// Quorum is what the log says of the voters, as of now.
	Quorum  func() snapshot.Quorum
	Members Members
	// Listener is the name of the listener on which controllers reach each other.
	Listener string
	// Supports asks a controller which levels of kraft.version it supports.
	Supports func(ctx context.Context, endpoint string) (low, high int16, err error)
	// Static are the voters of a static quorum.
	Static []raftlog.Voter

	changing sync.Mutex // one change at a time
}

// membersPause is how soon it is looked again whether a node has caught up.
const membersPause = 20 * time.Millisecond

var errChanging = protocol.Errorf(protocol.ErrRequestTimedOut, "Request timed out waiting for leader to handle previous voter change request")

// begin lets one change in, once what came before it has reached Raft.
func (v *Voters) begin(ctx context.Context) error {
	if !v.changing.TryLock() {
		return errChanging
	}
	if v.Quorum().Version == 0 || awaitMembers(ctx, func() (bool, <-chan struct{}) { return v.Members.Settled(), nil }) {
		return nil
	}
	v.changing.Unlock()
	return errChanging
}

// awaitMembers waits until ok says so. It reports false where ctx ends before.
func awaitMembers(ctx context.Context, ok func() (bool, <-chan struct{})) bool {
	for {
		done, changed := ok()
		if done {
			return true
		}
		timer := time.NewTimer(membersPause)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// RaftVoter is a voter as Raft knows it: at the first of its listeners that has one of
// some names, or the first of all. ok is false where it has none.
func RaftVoter(v record.Voter, listeners ...string) (_ raftlog.Voter, ok bool) {
	if len(v.Endpoints) == 0 {
		return raftlog.Voter{}, false
	}
	at := slices.IndexFunc(v.Endpoints, func(e record.VoterEndpoint) bool { return slices.Contains(listeners, e.Name) })
	return raftlog.Voter{ID: v.ID, DirectoryID: v.DirectoryID, Endpoint: v.Endpoints[max(at, 0)].Address()}, true
}

// AddVoter makes a controller that follows the log a voter: Raft feeds it without a
// vote until it has everything, then the log names it, then it votes. caughtUp tells
// whether it follows at all. The answer waits for the vote, as long as ctx lasts.
func (c *Controller) AddVoter(ctx context.Context, added record.Voter, by string, caughtUp func() bool) error {
	v := c.cfg.Voters
	if v == nil {
		_, err := decide.AddVoter(nil, 0, added)
		return err
	}
	key := decide.ReplicaKey(added.ID, added.DirectoryID)
	if err := v.begin(ctx); err != nil {
		return err
	}
	defer v.changing.Unlock()
	quorum := v.Quorum()
	if _, err := decide.AddVoter(quorum.Voters, quorum.Version, added); err != nil {
		return err
	}
	lagging := protocol.Errorf(protocol.ErrRequestTimedOut, "Aborted add voter operation for %s since it is lagging behind", key)
	follows, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if !awaitMembers(follows, func() (bool, <-chan struct{}) { return caughtUp(), nil }) {
		return lagging
	}
	guest, ok := RaftVoter(added, v.Listener)
	if !ok {
		return protocol.Errorf(protocol.ErrInvalidRequest, "%s listens nowhere", key)
	}
	c.logger.Info().Str("voter", key).Str("endpoint", guest.Endpoint).Msg("adding a voter: it is fed until it has everything")
	v.Members.Invite(guest)
	defer v.Members.Uninvite(guest)
	if !awaitMembers(ctx, func() (bool, <-chan struct{}) {
		m, changed := v.Members.Member(guest)
		return m.Member && m.CaughtUp || !c.leads(), changed
	}) {
		return lagging
	}
	if !c.leads() {
		return protocol.ErrNotController
	}
	low, high, err := v.Supports(ctx, guest.Endpoint)
	switch {
	case err != nil:
		c.logger.Warn().Err(err).Str("voter", key).Str("endpoint", guest.Endpoint).Msg("a controller that is to vote does not answer")
		return protocol.Errorf(protocol.ErrRequestTimedOut, "New voter %s is not ready to receive requests", key)
	case quorum.Version < low || quorum.Version > high:
		return protocol.Errorf(protocol.ErrInvalidRequest,
			"Aborted add voter operation for %s since the kraft.version range (min: %d, max: %d) doesn't support the finalized version %d", key, low, high, quorum.Version)
	}
	added.MinKRaft, added.MaxKRaft = low, high
	if err := c.writeVoters(ctx, "AddRaftVoter", by, func(q snapshot.Quorum) (*record.Voters, error) {
		return decide.AddVoter(q.Voters, q.Version, added)
	}); err != nil {
		return err
	}
	c.logger.Info().Str("voter", key).Msg("added a voter")
	// It is one by now, whenever Raft has it vote.
	awaitMembers(ctx, func() (bool, <-chan struct{}) {
		m, changed := v.Members.Member(guest)
		return m.Votes, changed
	})
	return nil
}

// leads tells whether this controller is in office.
func (c *Controller) leads() bool { return c.log.Status().Leadership.Leading }

// followTimeout is how long a controller that is to become a voter may take to be
// seen following: after an election the leader has to hear of everybody anew.
const followTimeout = 3 * time.Second

// RemoveVoter takes a voter's vote. Where that is this node, another will lead.
func (c *Controller) RemoveVoter(ctx context.Context, id protocol.NodeID, directory protocol.UUID, by string) error {
	v := c.cfg.Voters
	if v == nil {
		_, err := decide.RemoveVoter(nil, 0, id, directory)
		return err
	}
	if err := v.begin(ctx); err != nil {
		return err
	}
	defer v.changing.Unlock()
	remove := func(q snapshot.Quorum) (*record.Voters, error) {
		return decide.RemoveVoter(q.Voters, q.Version, id, directory)
	}
	left, err := remove(v.Quorum())
	if err == nil {
		err = c.awaitMajority(ctx, left, decide.ReplicaKey(id, directory))
	}
	if err == nil {
		err = c.writeVoters(ctx, "RemoveRaftVoter", by, remove)
	}
	if err != nil {
		return err
	}
	c.logger.Info().Str("voter", decide.ReplicaKey(id, directory)).Msg("removed a voter")
	if id == c.cfg.Env.NodeID {
		return nil // others have to see to it
	}
	awaitMembers(ctx, func() (bool, <-chan struct{}) {
		m, changed := v.Members.Member(raftlog.Voter{ID: id, DirectoryID: directory})
		return !m.Member, changed
	})
	return nil
}

// answerTime is how long voters may take to show that they live.
const answerTime = 2 * time.Second

// awaitMajority waits until a majority of voters has answered this leader from now
// on. Without one they would agree on nothing any more; Kafka writes such voters, and
// hangs, since they are never committed.
func (c *Controller) awaitMajority(ctx context.Context, voters *record.Voters, gone string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	since := time.Now().UnixMilli()
	var live int
	if awaitMembers(ctx, func() (bool, <-chan struct{}) {
		live = 0
		for _, p := range c.log.Status().Voters {
			if slices.ContainsFunc(voters.Voters, func(v record.Voter) bool { return v.ID == p.ID }) && p.LastFetchMs > since {
				live++
			}
		}
		return live > len(voters.Voters)/2 || !c.leads(), nil
	}) {
		if !c.leads() {
			return protocol.ErrNotController
		}
		return nil
	}
	return protocol.Errorf(protocol.ErrInvalidRequest, "Without %s only %d of %d voters answer, which is no majority: remove those first that are dead",
		gone, live, len(voters.Voters))
}

// UpdateVoter takes what a voter says of itself.
func (c *Controller) UpdateVoter(ctx context.Context, updated record.Voter) error {
	v := c.cfg.Voters
	if v == nil {
		return protocol.ErrUnsupportedVersion
	}
	if !v.changing.TryLock() {
		return protocol.ErrRequestTimedOut
	}
	defer v.changing.Unlock()
	return c.writeVoters(ctx, "UpdateRaftVoter", "", func(q snapshot.Quorum) (*record.Voters, error) {
		return decide.UpdateVoter(q.Voters, q.Version, updated)
	})
}

// writeVoters commits the voters that change decides on those of the log.
func (c *Controller) writeVoters(ctx context.Context, name, by string, change func(snapshot.Quorum) (*record.Voters, error)) error {
	deadline, _ := ctx.Deadline()
	p := newPending(nil, name, by, deadline, func(*office, *struct{}) (decision, error) {
		voters, err := change(c.cfg.Voters.Quorum())
		if err != nil {
			return decision{}, err
		}
		return decision{control: []record.Control{voters}}, nil
	})
	p.op.atomic = true // has whoever waits for the decision wait for the commit
	c.submit(p.op)
	_, err := p.Wait(ctx)
	return err
}

// dynamic is what makes a static quorum a dynamic one: kraft.version, and the voters
// with the directories that they have been seen with.
func (v *Voters) dynamic(img *metadata.Image) ([]record.Control, error) {
	if v == nil || len(v.Static) == 0 {
		return nil, errors.New("this controller can not change its voters")
	}
	var voters record.Voters
	for _, s := range v.Static {
		directory, ok := v.Members.Directory(s.ID)
		if !ok {
			return nil, fmt.Errorf("voter %d has not been seen yet, so its directory is not known", s.ID)
		}
		voter := record.Voter{ID: s.ID, DirectoryID: directory, MaxKRaft: 1}
		if known, ok := img.Controller(s.ID); ok {
			for _, e := range known.Endpoints {
				voter.Endpoints = append(voter.Endpoints, record.VoterEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
			}
		}
		if len(voter.Endpoints) == 0 {
			host, port, err := protocol.SplitAddress(s.Endpoint)
			if err != nil {
				return nil, fmt.Errorf("voter %d at %q: %w", s.ID, s.Endpoint, err)
			}
			voter.Endpoints = []record.VoterEndpoint{{Name: v.Listener, Host: host, Port: port}}
		}
		voters.Voters = append(voters.Voters, voter)
	}
	return []record.Control{&record.KRaftVersion{Version: 1}, &voters}, nil
}
