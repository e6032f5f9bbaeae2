package raftlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// errSnapshotLoop ends a session that has to be repaired; see repairLog.
var errSnapshotLoop = errors.New("the same snapshot was installed again and again")

// snapshotStore is the library's view of a SnapshotStore.
type snapshotStore struct {
	store SnapshotStore
	fail  *failure
}

// snapshotReader carries a snapshot's description to fsm.Restore, to which the
// library gives bytes only.
type snapshotReader struct {
	io.ReadCloser
	meta SnapshotMeta
}

func (s *snapshotStore) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return s.store.Create(SnapshotMeta{
		Index:              index,
		Term:               term,
		Configuration:      raft.EncodeConfiguration(c),
		ConfigurationIndex: configurationIndex,
	})
}

// List returns the newest snapshot only. Given several, the library would fall
// back to an older one when the newest is damaged, and then miss the entries
// that were trimmed behind the newest. The node stops instead.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	metas, err := s.store.List()
	if err != nil || len(metas) == 0 {
		return nil, err
	}
	m, err := libraryMeta(metas[0])
	if err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{m}, nil
}

// Open opens a snapshot. A leader that can not read its newest one would stay
// in office and starve every follower that needs it (#522), so that is fatal.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.store.Open(id)
	if err != nil {
		err = fmt.Errorf("open snapshot %s: %w", id, err)
		if metas, lerr := s.store.List(); lerr != nil || (len(metas) > 0 && metas[0].ID == id) {
			s.fail.set(err)
		}
		return nil, nil, err
	}
	m, err := libraryMeta(meta)
	if err != nil {
		_ = r.Close()
		return nil, nil, err
	}
	return m, &snapshotReader{ReadCloser: r, meta: meta}, nil
}

func libraryMeta(m SnapshotMeta) (*raft.SnapshotMeta, error) {
	c, err := decodeConfiguration(m.Configuration)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", m.ID, err)
	}
	return &raft.SnapshotMeta{
		Version:            raft.SnapshotVersionMax,
		ID:                 m.ID,
		Index:              m.Index,
		Term:               m.Term,
		Configuration:      c,
		ConfigurationIndex: m.ConfigurationIndex,
		Size:               m.Size,
	}, nil
}

// repairLog empties a log that contradicts the newest snapshot, before Raft
// starts. A follower with an uncommitted tail of its own keeps the entry at the
// snapshot's index when a snapshot is installed over it. Each append after the
// snapshot then fails the check of the previous term, and has the leader send
// the same snapshot, hundreds of times a second, for ever (#697). An entry that
// differs from a committed snapshot proves that it and all behind it is not the
// committed history; the vote and the term stay.
func repairLog(logs *logStore, snaps *snapshotStore) (repaired bool, err error) {
	metas, err := snaps.store.List()
	if err != nil {
		return false, fmt.Errorf("list snapshots: %w", err)
	}
	if len(metas) == 0 {
		return false, nil
	}
	var entry raft.Log
	err = logs.db.GetLog(metas[0].Index, &entry)
	if errors.Is(err, raft.ErrLogNotFound) || (err == nil && entry.Term == metas[0].Term) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("raft store: read entry %d: %w", metas[0].Index, err)
	}
	first, err := logs.db.FirstIndex()
	if err != nil {
		return false, err
	}
	last, err := logs.db.LastIndex()
	if err != nil {
		return false, err
	}
	// From the end, so that a crash in between leaves the contradiction to be found.
	for _, r := range deleteRanges(first, last, true) {
		if err := logs.write("repair the log", func() error { return logs.db.DeleteRange(r[0], r[1]) }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// checkConnected refuses a log that does not begin where the newest snapshot
// ends, as after a snapshot was removed by hand. The library would find out by
// a panic, or not at all.
func checkConnected(logs *logStore, snaps *snapshotStore) error {
	metas, err := snaps.store.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	var covered uint64
	if len(metas) > 0 {
		covered = metas[0].Index
	}
	last, err := logs.db.LastIndex()
	if err != nil {
		return fmt.Errorf("raft store: read the last index: %w", err)
	}
	if last <= covered {
		return nil
	}
	var entry raft.Log
	err = logs.db.GetLog(covered+1, &entry)
	if errors.Is(err, raft.ErrLogNotFound) {
		return fmt.Errorf("the Raft log goes to entry %d, but entry %d, the first behind the newest snapshot, is missing", last, covered+1)
	}
	if err != nil {
		return fmt.Errorf("raft store: read entry %d: %w", covered+1, err)
	}
	return nil
}
