package memlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// begin makes sure that the log goes on behind a snapshot. Entries behind it
// stay.
func (d *Disk) begin(index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = max(d.last, index)
	d.term = max(d.term, term)
	if index > d.base {
		d.trimLocked(index, term)
	}
}

func (d *Disk) termOf(index uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.Index == index {
			return e.Term
		}
	}
	if index == d.base {
		return d.baseTerm
	}
	return d.term
}

func (d *Disk) trim(upTo uint64) {
	term := d.termOf(upTo)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trimLocked(upTo, term)
}

func (d *Disk) trimLocked(upTo, term uint64) {
	d.base, d.baseTerm = upTo, term
	d.entries = slices.DeleteFunc(d.entries, func(e raftlog.Entry) bool { return e.Index <= upTo })
}
