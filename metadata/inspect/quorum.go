package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// Quorum is what the files of one node say of its quorum.
type Quorum struct {
	Dir string // of the metadata log, or the one file that was read
	// Meta is whose directory it is, and Running whether a process holds it. Both
	// are of the log directory, nil and false where there is the metadata log alone.
	Meta    *storage.MetaProperties
	Running bool

	raftlog.Election // by quorum-state
	// Dynamic: the voters are in the log (kraft.version 1), as Members.
	Dynamic bool
	Members []record.Voter

	// StartOffset and EndOffset are where the log begins and ends, LastEpoch the
	// epoch of the record before its end. What Raft holds and has not applied counts
	// too: Unapplied records.
	StartOffset, EndOffset int64
	LastEpoch              protocol.ControllerEpoch
	LastMs                 int64 // when that record was written; −1 where there is none
	Unapplied              int64

	// Snapshot is the newest checkpoint, HasSnapshot false where there is none.
	Snapshot     snapshot.ID
	SnapshotSize int64
	HasSnapshot  bool

	// Store is Raft's, nil where StoreErr says why there is none to read:
	// fs.ErrNotExist on a node without one, raftlog.ErrInUse below a running one.
	Store    *raftlog.Stored
	StoreErr error
}

// NewestEpoch is the newest epoch that the node has known.
func (q *Quorum) NewestEpoch() protocol.ControllerEpoch {
	epoch := max(q.Election.Epoch, q.LastEpoch)
	if q.Store != nil {
		epoch = max(epoch, protocol.ControllerEpoch(q.Store.Term))
	}
	return epoch
}

// LoadQuorum reads what a log directory, or the metadata log's own, says. Of a
// file that is what it holds.
func LoadQuorum(path string) (*Quorum, error) {
	return again(func() (*Quorum, error) { return loadQuorum(path, false) })
}

// LoadHeldQuorum is LoadQuorum for a caller who holds the directory himself.
func LoadHeldQuorum(path string) (*Quorum, error) { return loadQuorum(path, true) }

func loadQuorum(path string, held bool) (*Quorum, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	q := &Quorum{Dir: filepath.Dir(files[0]), LastMs: -1, StoreErr: fs.ErrNotExist}
	q.Leader, q.Voted = protocol.NoNode, protocol.NoNode
	if files[0] == path {
		q.Dir = path
		return q, q.readLog(files)
	}
	if err := q.readOwner(); err != nil {
		return nil, err
	}
	q.Running = q.Running && !held
	if q.Election, _, err = raftlog.ReadElection(q.Dir); err != nil {
		return nil, err
	}
	if err := q.readLog(files); err != nil {
		return nil, err
	}
	q.readStore()
	return q, nil
}

// readOwner reads what lies above the metadata log.
func (q *Quorum) readOwner() error {
	above := filepath.Dir(q.Dir)
	meta, err := storage.ReadMetaProperties(vfs.OS(), above)
	if errors.Is(err, storage.ErrNotFormatted) {
		return nil
	}
	if err != nil {
		return err
	}
	q.Meta = &meta
	q.Running, err = storage.Held(above)
	return err
}

// readLog finds the ends of the log and who is in the quorum.
func (q *Quorum) readLog(files []string) error {
	var segments []string
	var kraft snapshot.Quorum
	for _, file := range files {
		id, isCheckpoint := snapshot.ParseFileName(filepath.Base(file))
		if !isCheckpoint {
			segments = append(segments, file)
			continue
		}
		// The last one, or the one that an empty log begins with.
		header, err := snapshot.Read(vfs.OS(), filepath.Dir(file), id, func(record.Record) error { return nil })
		if err != nil {
			return err
		}
		kraft = header.KRaft
		if id.Offset == 0 {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		q.Snapshot, q.SnapshotSize, q.HasSnapshot = id, info.Size(), true
		q.LastMs = header.LastTimestampMs
	}
	q.EndOffset, q.LastEpoch = q.Snapshot.Offset, q.Snapshot.Epoch
	if len(segments) > 0 {
		q.StartOffset = baseOf(segments[0])
		q.EndOffset = max(q.EndOffset, baseOf(segments[len(segments)-1]))
	}
	for i, file := range segments {
		if i+1 < len(segments) && baseOf(segments[i+1]) <= q.Snapshot.Offset {
			continue
		}
		if err := q.readSegment(file, &kraft); err != nil {
			return err
		}
	}
	if q.Dynamic = kraft.Version > 0; q.Dynamic && kraft.Voters != nil {
		q.Members = kraft.Voters.Voters
	}
	return nil
}

func (q *Quorum) readSegment(path string, kraft *snapshot.Quorum) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := record.NewScanner(bufio.NewReaderSize(f, 64<<10))
	for {
		b, err := s.Next()
		if err == io.EOF || errors.Is(err, batch.ErrIncomplete) {
			return nil // a node writes here, or was killed while it did
		}
		if err != nil {
			return fmt.Errorf("%s: position %d: %w", path, s.Position(), err)
		}
		if b.NextOffset() <= q.Snapshot.Offset {
			continue
		}
		q.EndOffset, q.LastEpoch, q.LastMs = b.NextOffset(), protocol.ControllerEpoch(b.LeaderEpoch()), b.MaxTimestamp()
		if !b.IsControl() {
			continue
		}
		if err := record.Each(b, func(e record.Entry) error {
			switch c := e.Control.(type) {
			case *record.KRaftVersion:
				kraft.Version = c.Version
			case *record.Voters:
				kraft.Voters = c
			}
			return nil
		}); err != nil {
			return fmt.Errorf("%s: position %d: %w", path, s.Position(), err)
		}
	}
}

// readStore reads Raft's store, and counts what the log will get from it.
func (q *Quorum) readStore() {
	if q.Running {
		q.StoreErr = raftlog.ErrInUse
		return
	}
	newest, id, _, err := snapshot.Newest(vfs.OS(), q.Dir)
	if err != nil {
		q.StoreErr = err
		return
	}
	end, epoch, ms := id.Offset, id.Epoch, int64(-1)
	q.Store, q.StoreErr = raftlog.ReadStored(q.Dir, newest, func(e raftlog.Entry) error {
		b, _, err := batch.Next(e.Data)
		if err != nil {
			return err
		}
		if uint64(b.LeaderEpoch()) == e.Term { // the others are skipped
			end, epoch, ms = end+b.NextOffset()-b.BaseOffset(), protocol.ControllerEpoch(e.Term), b.MaxTimestamp()
		}
		return nil
	})
	if q.StoreErr == nil && end > q.EndOffset {
		q.Unapplied = end - q.EndOffset
		q.EndOffset, q.LastEpoch, q.LastMs = end, epoch, ms
	}
	if q.StoreErr == nil && end < q.EndOffset {
		q.StoreErr, q.Store = fmt.Errorf("it ends at offset %d, and the log at %d: it is an old copy", end, q.EndOffset), nil
	}
}
