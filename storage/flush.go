package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// Flush makes everything below upTo durable and returns when it is; upTo above
// the log end means the log end. Callers that wait at the same time share
// one sync: whoever comes first syncs all that has been appended by then, and
// the others find that they have what they wanted.
//
// An error takes the log directory offline. It is never tried again: after a
// failed fsync the kernel may have dropped what it could not write.
func (l *Log) Flush(upTo int64) error {
	return l.flush(func() (*flushWork, error) { return l.flushWorkLocked(upTo, true) })
}

// flushClosed makes the closed segments durable and leaves the active one to
// the page cache.
func (l *Log) flushClosed() error {
	return l.flush(func() (*flushWork, error) {
		return l.flushWorkLocked(l.activeLocked().base, false)
	})
}

func (l *Log) flush(workLocked func() (*flushWork, error)) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	work, err := workLocked()
	l.mu.Unlock()
	if err != nil || work == nil {
		return err
	}
	err = l.sync(work)
	work.release()
	if err != nil && isFull(err) && !work.unsynced {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.undoneLocked(err)
	}
	if err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushedLocked(work)
	return l.usableLocked()
}

// undoneLocked leaves to the next flush what one could not write on a full
// volume: all of it is new files, which are written anew.
func (l *Log) undoneLocked(err error) error {
	l.dirDirty, l.epochs.saved = true, unreadableEpochs
	return fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err)
}

// flushWork is what one flush has to make durable, taken under the lock.
type flushWork struct {
	to        int64 // the new recovery point
	path      string
	files     []*handle // of the segments with unsynced bytes
	seal      []*segment
	indexes   []sealing // one per seal
	snapshots []snapshot
	epochs    []epochEntry
	hasEpochs bool
	dir       bool
	// parentLater: the caller syncs the directory that the log's own lies in.
	parentLater bool
	// unsynced: a file's bytes may be lost, and asking again would not tell.
	unsynced bool
}

// sealing is the content of the index files of a closed segment.
type sealing struct {
	base           int64
	offsets, times []byte
	aborted        []abortedTxn
}

func (w *flushWork) release() {
	for _, h := range w.files {
		h.release()
	}
}

// flushWorkLocked collects what to do; nil where everything is done. Without
// active, only the closed segments are synced.
func (l *Log) flushWorkLocked(upTo int64, active bool) (*flushWork, error) {
	if err := l.usableLocked(); err != nil {
		return nil, err
	}
	// Segments are sealed in order: what is to be done is at the end.
	first := len(l.segments) - 1
	for first > 0 && (!l.segments[first-1].sealed || l.endLocked(first-1) > l.flushedTo) {
		first--
	}
	if l.flushedTo >= min(upTo, l.leo) && first == len(l.segments)-1 && len(l.snapshots) == 0 {
		return nil, nil
	}
	to, count := l.leo, len(l.segments)
	if !active {
		to, count = l.activeLocked().base, count-1
	}
	w := &flushWork{
		to: to, path: l.path, snapshots: l.snapshots, dir: l.dirDirty,
		epochs: l.epochs.entries, hasEpochs: l.epochs.unsaved(l.leo),
	}
	for i := first; i < count; i++ {
		s, closed := l.segments[i], i < len(l.segments)-1
		if s.size > 0 && l.endLocked(i) > l.flushedTo {
			h, err := l.openLocked(s)
			if err != nil {
				w.release()
				return nil, err
			}
			h.retain()
			w.files = append(w.files, h)
		}
		if closed && !s.sealed {
			w.addSeal(s)
		}
	}
	l.dirDirty = false
	if w.hasEpochs {
		l.epochs.saved = w.epochs
	}
	return w, nil
}

func (w *flushWork) addSeal(s *segment) {
	w.seal = append(w.seal, s)
	w.indexes = append(w.indexes, sealing{s.base, s.offsets.heap, s.times.heap, slices.Clone(s.aborted)})
	w.dir = true
}

// sync does the work. Nothing is locked but syncing. The order matters to
// nobody: the recovery point moves when all of it is done.
func (l *Log) sync(w *flushWork) error {
	for _, h := range w.files {
		if err := h.Sync(); err != nil {
			w.unsynced = true
			return fmt.Errorf("sync %s: %w", w.path, err)
		}
	}
	for _, x := range w.indexes {
		if err := writeIndexFiles(l.fs, w.path, x.base, x.offsets, x.times, x.aborted); err != nil {
			return err
		}
	}
	for _, snap := range w.snapshots {
		if err := writeAtomic(l.fs, filepath.Join(w.path, fileName(snap.offset, snapshotSuffix)), snap.data); err != nil {
			return fmt.Errorf("write producer snapshot %d in %s: %w", snap.offset, w.path, err)
		}
		w.dir = true
	}
	if w.hasEpochs {
		if err := writeAtomic(l.fs, filepath.Join(w.path, epochsFile), formatEpochs(w.epochs)); err != nil {
			return fmt.Errorf("write %s in %s: %w", epochsFile, w.path, err)
		}
		w.dir = true
	}
	if w.dir {
		if err := l.fs.SyncDir(w.path); err != nil {
			return fmt.Errorf("sync directory %s: %w", w.path, err)
		}
	}
	return l.syncCreation(w.path, w.parentLater)
}

// syncCreation makes durable what creating the log has left to the first flush:
// partition.metadata and the directory's own name. With parentLater the caller
// syncs the directory that it lies in. syncing is held.
func (l *Log) syncCreation(path string, parentLater bool) error {
	if l.parentSynced {
		return nil
	}
	if err := syncFile(l.fs, filepath.Join(path, partitionMetaFile)); err != nil {
		return fmt.Errorf("sync %s in %s: %w", partitionMetaFile, path, err)
	}
	if parentLater {
		return nil
	}
	if err := l.fs.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync directory %s: %w", filepath.Dir(path), err)
	}
	l.parentSynced = true
	return nil
}

// syncFile syncs a file by name, if it is there.
func syncFile(fsys vfs.FS, path string) error {
	if _, err := fsys.Stat(path); err != nil {
		return nil
	}
	f, err := fsys.OpenWrite(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// flushedLocked makes the outcome true.
func (l *Log) flushedLocked(w *flushWork) {
	l.flushedTo = max(l.flushedTo, w.to)
	for _, s := range w.seal {
		s.sealedLocked()
	}
	l.snapshots = l.snapshots[len(w.snapshots):]
	if len(l.snapshots) == 0 {
		l.snapshots = nil
	}
}

// sealedLocked lets go of the indexes on the heap: the files have them.
func (s *segment) sealedLocked() {
	s.sealed = true
	s.offsets.onDisk, s.offsets.heap = true, nil
	s.times.onDisk, s.times.heap = true, nil
	s.aborted = nil
}

// Close makes the log durable, indexes and producer state included, so that
// the next start believes its files, and closes them. Reads that hold a slice
// are not disturbed.
func (l *Log) Close() error { return l.close(false) }

// close closes the log. With parentLater the log directory that it is in is left
// to be synced by the caller, once for all of its logs.
func (l *Log) close(parentLater bool) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	err := l.closeSyncing(parentLater)
	if errors.Is(err, errClosed) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.segments {
		s.close()
	}
	return err
}

func (l *Log) closeSyncing(parentLater bool) error {
	l.mu.Lock()
	if err := l.usableLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	s := l.activeLocked()
	s.noteTime()
	if l.leo > l.snapshotAt {
		l.snapshotLocked(l.leo)
	}
	work, err := l.flushWorkLocked(l.leo, true)
	if err == nil && work == nil {
		work = &flushWork{to: l.leo, path: l.path}
	}
	if err == nil && !s.sealed {
		work.addSeal(s)
	}
	if err == nil && l.epochs.unsaved(l.leo) {
		work.epochs, work.hasEpochs, l.epochs.saved = l.epochs.entries, true, l.epochs.entries
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	work.parentLater = parentLater
	err = l.sync(work)
	work.release()
	if err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushedLocked(work)
	return nil
}

// abandon closes the files and leaves everything as it is: the log is being
// deleted, or its disk has failed.
func (l *Log) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.segments {
		s.close()
	}
}
