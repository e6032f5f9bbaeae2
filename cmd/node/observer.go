package node

import (
	"context"
	"slices"
	"time"

	"github.com/klamm/klamm/metadata/follower"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// leaderless is for how long a voter waits for Raft to find a leader before it
// fetches the log instead: it may have been removed while it was away.
const leaderless = 3 * time.Second

// startPause is how soon it is looked again whether Raft runs.
const startPause = 20 * time.Millisecond

// startObserver starts in the stage what feeds a controller of a dynamic quorum
// while Raft does not: before it is a voter, and once it is none any more.
func (n *node) startObserver(below *stage, meta *metadata, q *quorum) {
	cfg := n.followerConfig(meta)
	cfg.Known = func() map[protocol.NodeID]string {
		known := make(map[protocol.NodeID]string)
		for _, v := range q.voters.all() {
			known[v.ID] = v.Endpoint
		}
		return known
	}
	cfg.Due = q.awaitUnfed
	q.told = follower.New(cfg, n.log)
	below.run("metadata follower", q.told.Run)
	below.run("leader of the observer", q.tell)
}

// awaitUnfed waits until Raft does not bring the log, or ctx is done.
func (q *quorum) awaitUnfed(ctx context.Context, idle func()) {
	for ctx.Err() == nil {
		_, changed := q.engine.Leadership()
		member, known := q.engine.IsMember()
		wait := leaderless
		switch voters := q.voters.logVoters(); {
		case !known:
			wait = startPause
		case q.engine.HasLeader(), voters == nil && member: // the latter: a static quorum
			q.fed = time.Now()
		case member && slices.ContainsFunc(voters, q.isOwn):
			if wait -= time.Since(q.fed); wait <= 0 {
				return
			}
		default:
			return
		}
		if idle != nil {
			idle()
			idle = nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (q *quorum) isOwn(v raftlog.Voter) bool {
	return v.ID == q.own.ID && v.DirectoryID == q.own.DirectoryID
}

// tell passes on to Raft's side who leads, as this observer has learned.
func (q *quorum) tell(ctx context.Context) error {
	for {
		leader, epoch, changed := q.told.Leadership()
		q.engine.Told(leader, epoch)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
