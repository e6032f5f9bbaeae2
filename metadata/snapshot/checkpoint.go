package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klamm/klamm/storage/vfs"
)

// Writer writes a checkpoint that Raft knows nothing of: an observer's own, or
// one that it fetches.
type Writer struct {
	fs   vfs.FS
	dir  string
	id   ID
	part string
	file vfs.File // nil once closed
	out  *fileWriter
	size int64
}

// Create begins a checkpoint; nothing of it counts before Close.
func Create(fsys vfs.FS, dir string, id ID) (*Writer, error) {
	if id == bootstrapID {
		return nil, errors.New("create checkpoint: it is of an empty log")
	}
	part := filepath.Join(dir, id.FileName()+partSuffix)
	f, err := fsys.Create(part)
	if err != nil {
		return nil, fmt.Errorf("create checkpoint: %w", err)
	}
	return &Writer{fs: fsys, dir: dir, id: id, part: part, file: f, out: newFileWriter(f)}, nil
}

// Size is how many bytes were written.
func (w *Writer) Size() int64 { return w.size }

// Write takes the next bytes of the file.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.size += int64(n)
	if err != nil {
		err = fmt.Errorf("write checkpoint %s: %w", w.part, err)
	}
	return n, err
}

// Close verifies what was written and publishes it. After an error there is no
// such checkpoint, unless there was one before.
func (w *Writer) Close() error {
	err := w.out.flush()
	if err == nil {
		err = verify(w.file, w.part, w.size)
	}
	if err == nil {
		err = freeze(w.file)
	}
	if err != nil {
		return errors.Join(err, w.Cancel())
	}
	f := w.file
	w.file = nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close checkpoint %s: %w", w.part, err)
	}
	return publish(w.fs, w.part, filepath.Join(w.dir, w.id.FileName()))
}

// Cancel throws away what was written.
func (w *Writer) Cancel() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(f.Close(), w.fs.Remove(w.part))
}

// RemoveUnfinished removes what an earlier life left unfinished.
func RemoveUnfinished(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir || !strings.HasSuffix(e.Name, partSuffix) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil {
			return fmt.Errorf("remove an unfinished snapshot: %w", err)
		}
	}
	return nil
}

// Reap removes all but the newest checkpoints of a directory whose node is no voter.
// Where it has been one, Raft may still mean older ones.
func Reap(fsys vfs.FS, dir string) error {
	ids, err := Checkpoints(fsys, dir)
	if err != nil {
		return err
	}
	sidecars, err := (&Store{fs: fsys, dir: dir}).sidecars()
	if err != nil {
		return err
	}
	for _, id := range ids[:max(0, len(ids)-retain)] {
		if slices.ContainsFunc(sidecars, func(s *sidecar) bool { return s.Checkpoint == id.FileName() }) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, id.FileName())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}
