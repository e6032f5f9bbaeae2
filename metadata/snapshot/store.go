package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

// retain is how many snapshots are kept: the newest, and one to fall back to
// while a peer still reads the older or should the newest be damaged.
const retain = 2

// Store keeps Raft's snapshots as checkpoints. It implements raftlog.SnapshotStore.
type Store struct {
	fs    vfs.FS
	dir   string // __cluster_metadata-0
	log   zerolog.Logger
	parts atomic.Int64 // names of unfinished files
}

var _ raftlog.SnapshotStore = (*Store)(nil)

// OpenStore opens the store of a metadata directory and removes what an
// earlier life left unfinished.
func OpenStore(fsys vfs.FS, dir string, log zerolog.Logger) (*Store, error) {
	if err := RemoveUnfinished(fsys, dir); err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	return &Store{fs: fsys, dir: dir, log: log.With().Str("component", "snapshot").Logger()}, nil
}

// List returns the snapshots, highest index first. A sidecar that can not be
// read, or whose checkpoint is gone, is an error: Raft's log may have been
// trimmed behind it, so that leaving it out would leave a gap.
func (s *Store) List() ([]raftlog.SnapshotMeta, error) {
	sidecars, err := s.sidecars()
	if err != nil {
		return nil, err
	}
	var metas []raftlog.SnapshotMeta
	for _, sc := range sidecars {
		path := filepath.Join(s.dir, sc.Checkpoint)
		info, err := s.fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("checkpoint of snapshot %s: %w", snapshotID(sc.Index, sc.Term), err)
		}
		if info.Size != sc.Size {
			return nil, fmt.Errorf("checkpoint %s has %d bytes, its snapshot %s has %d",
				path, info.Size, snapshotID(sc.Index, sc.Term), sc.Size)
		}
		metas = append(metas, sc.meta())
	}
	return metas, nil
}

// sidecars returns what is in the sidecars, highest index first.
func (s *Store) sidecars() ([]*sidecar, error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var all []*sidecar
	for _, e := range slices.Backward(entries) { // sorted by name: by index, then term
		if e.IsDir || !IsSidecar(e.Name) {
			continue
		}
		sc, err := readSidecar(s.fs, filepath.Join(s.dir, e.Name))
		if err != nil {
			return nil, err
		}
		all = append(all, sc)
	}
	return all, nil
}

// Newest is the newest snapshot that Raft has in a directory, and the checkpoint
// that it is; ok is false where there is none. It changes nothing.
func Newest(fsys vfs.FS, dir string) (meta raftlog.SnapshotMeta, id ID, ok bool, err error) {
	sidecars, err := (&Store{fs: fsys, dir: dir}).sidecars()
	if err != nil || len(sidecars) == 0 {
		return meta, id, false, err
	}
	id, _ = ParseFileName(sidecars[0].Checkpoint) // decodeSidecar has checked it
	return sidecars[0].meta(), id, true, nil
}

// Open returns a snapshot as a stream that Restore and a peer's Sink take. The
// checkpoint has been verified from end to end before the first byte is read:
// Raft tries an older one where Open fails, but not where reading does.
func (s *Store) Open(id string) (raftlog.SnapshotMeta, io.ReadCloser, error) {
	sc, err := readSidecar(s.fs, filepath.Join(s.dir, id+sidecarSuffix))
	if err != nil {
		return raftlog.SnapshotMeta{}, nil, err
	}
	path := filepath.Join(s.dir, sc.Checkpoint)
	f, err := s.fs.Open(path)
	if err != nil {
		return raftlog.SnapshotMeta{}, nil, fmt.Errorf("open checkpoint: %w", err)
	}
	if err := verify(f, path, sc.Size); err != nil {
		return raftlog.SnapshotMeta{}, nil, errors.Join(err, f.Close())
	}
	src, err := reader(f)
	if err != nil {
		return raftlog.SnapshotMeta{}, nil, errors.Join(err, f.Close())
	}
	checkpoint, _ := ParseFileName(sc.Checkpoint) // decodeSidecar has checked it
	stream := io.MultiReader(strings.NewReader(string(appendPreamble(nil, checkpoint))), src)
	return sc.meta(), &openSnapshot{Reader: stream, file: f}, nil
}

type openSnapshot struct {
	io.Reader
	file vfs.File
}

func (o *openSnapshot) Close() error { return o.file.Close() }

// Create begins a snapshot; nothing of it counts before its sink is closed.
func (s *Store) Create(meta raftlog.SnapshotMeta) (raftlog.SnapshotSink, error) {
	id := snapshotID(meta.Index, meta.Term)
	part := filepath.Join(s.dir, fmt.Sprintf("%s.%d%s%s", id, s.parts.Add(1), checkpointSuffix, partSuffix))
	f, err := s.fs.Create(part)
	if err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	return &sink{store: s, id: id, meta: meta, part: part, file: f, out: newFileWriter(f)}, nil
}

// reap removes all but the newest snapshots: sidecars first, durably, so that
// none is ever without its checkpoint.
func (s *Store) reap() error {
	sidecars, err := s.sidecars()
	if err != nil || len(sidecars) <= retain {
		return err
	}
	for _, sc := range sidecars[retain:] {
		path := filepath.Join(s.dir, snapshotID(sc.Index, sc.Term)+sidecarSuffix)
		if err := s.fs.Remove(path); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("remove old snapshots: %w", err)
	}
	oldest, _ := ParseFileName(sidecars[retain-1].Checkpoint)
	checkpoints, err := Checkpoints(s.fs, s.dir)
	if err != nil {
		return err
	}
	for _, id := range checkpoints {
		if id.compare(oldest) >= 0 {
			break
		}
		if err := s.fs.Remove(filepath.Join(s.dir, id.FileName())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}

// verify reads a checkpoint from end to end. Its errors name file and position.
func verify(f vfs.File, path string, size int64) error {
	if got, err := f.Size(); err != nil || got != size {
		return errors.Join(fmt.Errorf("checkpoint %s has %d bytes, want %d", path, got, size), err)
	}
	src, err := reader(f)
	if err == nil {
		err = scan(src, func(batch.Batch) error { return nil })
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", path, err)
	}
	return nil
}
