package memlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/klamm/klamm/raftlog"
)

// restore gives the state machine the newest snapshot, and returns its index, 0
// where there is none.
func restore(cfg *Config) (uint64, error) {
	if cfg.Snapshots == nil {
		return 0, nil
	}
	metas, err := cfg.Snapshots.List()
	if err != nil || len(metas) == 0 {
		return 0, err
	}
	meta, r, err := cfg.Snapshots.Open(metas[0].ID)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	if err := cfg.StateMachine.Restore(meta, r); err != nil {
		return 0, fmt.Errorf("restore snapshot %s: %w", meta.ID, err)
	}
	cfg.Disk.begin(meta.Index, meta.Term)
	return meta.Index, nil
}

// takeSnapshot writes a snapshot of what is applied and drops the entries before it.
func takeSnapshot(ctx context.Context, cfg *Config, applied uint64) error {
	if cfg.Snapshots == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	metas, err := cfg.Snapshots.List()
	if err != nil || applied == 0 || (len(metas) > 0 && metas[0].Index >= applied) {
		return err
	}
	snap, err := cfg.StateMachine.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	sink, err := cfg.Snapshots.Create(raftlog.SnapshotMeta{Index: applied, Term: cfg.Disk.termOf(applied)})
	if err != nil {
		return err
	}
	if _, err := snap.WriteTo(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	cfg.Disk.trim(applied)
	return nil
}
