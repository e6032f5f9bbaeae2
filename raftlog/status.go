package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// Status reports the progress of the voters: all of them on the leader, this
// node's own elsewhere.
func (e *Engine) Status() Status {
	l, _ := e.office.current()
	out := Status{Leadership: l}
	s := e.session.Load()
	var term uint64
	if s != nil {
		out.LastIndex, term = s.raft.LastIndex(), s.raft.CurrentTerm()
	}
	now := time.Now().UnixMilli()
	for _, v := range e.voters.list() {
		p := Peer{ID: v.ID, DirectoryID: v.DirectoryID, LastFetchMs: -1, CaughtUpMs: -1}
		switch {
		case s == nil:
		case v.ID == e.cfg.NodeID && (v.DirectoryID == protocol.ZeroUUID || v.DirectoryID == e.cfg.DirectoryID):
			p.AckedIndex, p.LastFetchMs, p.CaughtUpMs = out.LastIndex, now, now
		case l.Leading:
			a := e.acks.in(s.serverOf(v), term)
			p.AckedIndex, p.LastFetchMs, p.CaughtUpMs = a.index, millis(a.contact), millis(a.caughtUp)
		}
		out.Voters = append(out.Voters, p)
	}
	return out
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// TakeSnapshot writes a snapshot of what is applied and trims the log, keeping
// trailingEntries. A snapshot goes on after ctx is done: the library can not
// stop it.
func (e *Engine) TakeSnapshot(ctx context.Context) error {
	s := e.session.Load()
	if s == nil {
		return fmt.Errorf("take a snapshot: %w", protocol.ErrNotController)
	}
	metas, err := e.cfg.Snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	if len(metas) > 0 && metas[0].Index >= s.fsm.applied.Load() {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- s.raft.Snapshot().Error() }()
	select {
	case err = <-done:
	case <-e.fail.dead:
		err = e.fail.get()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	return nil
}
