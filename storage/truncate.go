package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/klamm/klamm/storage/vfs"
)

// TruncateTo removes everything from an offset on, epochs and producer state
// included, durably. A batch that the offset falls into goes as a whole. It
// returns when a power cut cannot bring anything back. The caller has stopped
// appending; slices that are out keep their bytes.
//
// At or above the log end only epochs that start there are removed: several
// elections without records may have left some that the new leader lacks.
func (l *Log) TruncateTo(offset int64) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	err := l.usableLocked()
	first, leo := l.segments[0].base, l.leo
	if err == nil && offset >= leo {
		l.epochs.truncateFromEnd(offset)
	}
	l.mu.Unlock()
	switch {
	case err != nil || offset >= leo:
		return err
	case offset < 0:
		return fmt.Errorf("truncate %s to %d", l.path, offset)
	case offset < first:
		return l.truncateFully(offset)
	}
	return l.truncate(offset)
}

// TruncateFullyAndStartAt removes everything and goes on at an offset, durably:
// where a follower begins whose leader has none of its records any more.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("start %s at %d", l.path, offset)
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	err := l.usableLocked()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.truncateFully(offset)
}

// truncate cuts to an offset inside the log. syncing is held. At each step a
// crash finds a first part of the log as it was: later segments go first, for
// good, and then the end of the one that stays is cut.
//
// It is the one place where mu is held over more than one call to the disk:
// it is rare, the caller has stopped appending, and what is read meanwhile is
// at most the batch headers of one segment, for the producers' state.
func (l *Log) truncate(offset int64) error {
	if err := l.lowerRecoveryPoint(offset); err != nil {
		return err
	}
	l.mu.Lock()
	l.cutting = true
	err := l.removeFromLocked(l.segmentIndexLocked(offset) + 1)
	path := l.path
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.cutting = false
		l.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	if err := l.fs.SyncDir(path); err != nil {
		return l.fail(fmt.Errorf("sync directory %s: %w", path, err))
	}
	l.mu.Lock()
	err = l.forgetFromLocked(offset)
	s := l.activeLocked()
	file, position := s.file, s.size
	shared := err == nil && file.shared()
	l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	if err := l.cutFile(s, file, position, shared); err != nil {
		return l.fail(fmt.Errorf("cut segment %d of %s to %d bytes: %w", s.base, path, position, err))
	}
	if err := l.writeEpochs(); err != nil {
		return l.fail(fmt.Errorf("write %s in %s: %w", epochsFile, path, err))
	}
	l.log.Info().Str("path", path).Int64("offset", offset).Msg("log truncated")
	return nil
}

// forgetFromLocked makes the log end at an offset in its last segment, in
// memory. From here on nobody is given bytes that will be cut.
func (l *Log) forgetFromLocked(offset int64) error {
	if err := l.cutSegmentLocked(l.activeLocked(), offset); err != nil {
		return err
	}
	l.leo = offset
	l.logStart = min(l.logStart, offset)
	l.epochs.truncateFromEnd(offset)
	if err := l.dropSnapshotsLocked(offset); err != nil {
		return err
	}
	return l.loadProducersLocked(offset)
}

// cutFile cuts N.log and syncs it. Where somebody has been promised bytes of
// the file, the file goes on without a name, and the log gets a copy of what
// it keeps: no reader, however slow, can hold up a truncation.
func (l *Log) cutFile(s *segment, file *handle, size int64, shared bool) error {
	if !shared {
		if err := file.Truncate(size); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		return l.fs.SyncDir(l.path)
	}
	head, err := l.copyHead(s.base, file, size)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.file.release()
	s.file = head
	return nil
}

// lowerRecoveryPoint lowers the recovery point and lets the owner make that
// durable, before other bytes may stand where synced ones did.
func (l *Log) lowerRecoveryPoint(offset int64) error {
	l.mu.Lock()
	lower := offset < l.flushedTo
	l.flushedTo = min(l.flushedTo, offset)
	l.mu.Unlock()
	if l.opts.BeforeTruncate == nil || !lower {
		return nil
	}
	if err := l.opts.BeforeTruncate(offset); err != nil {
		return l.fail(fmt.Errorf("lower the recovery point of %s to %d: %w", l.path, offset, err))
	}
	return nil
}

// removeFromLocked removes the segments from index i on, the last one first.
func (l *Log) removeFromLocked(i int) error {
	for n := len(l.segments); n > i; n-- {
		s := l.segments[n-1]
		s.close()
		if err := removeSegmentFiles(l.fs, l.path, s.base); err != nil {
			return l.failLocked(fmt.Errorf("remove segment %d of %s: %w", s.base, l.path, err))
		}
		l.segments = l.segments[:n-1]
	}
	l.dirDirty = true
	return nil
}

// cutSegmentLocked makes a segment's description that of what stays of it below
// an offset, and takes away its mark of being sealed. The file is not cut yet.
func (l *Log) cutSegmentLocked(s *segment, offset int64) error {
	if _, err := l.openLocked(s); err != nil {
		return err
	}
	var bad *FormatError
	if err := l.loadIndexesLocked(s); errors.As(err, &bad) {
		l.log.Warn().Err(err).Str("path", l.path).Msg("index is damaged, made anew")
		s.offsets.close()
		s.times.close()
		s.offsets, s.times = index{entrySize: offsetEntrySize}, index{entrySize: timeEntrySize}
	} else if err != nil {
		return err
	}
	if s.sealed {
		if err := l.unsealLocked(s); err != nil {
			return err
		}
	}
	relative := offset - 1 - s.base
	s.offsets.truncateAt(byFirst, relative)
	s.times.truncateAt(bySecond, relative)
	s.aborted = slices.DeleteFunc(s.aborted, func(t abortedTxn) bool { return t.lastOffset >= offset })
	old := s.size
	s.rewind()
	if err := l.growLocked(s, old, offset); err != nil {
		return err
	}
	if s.size == 0 {
		s.created, s.firstTimestamp = l.now(), noTimestamp
	}
	return nil
}

// loadIndexesLocked puts the indexes of a segment on the heap.
func (l *Log) loadIndexesLocked(s *segment) error {
	for suffix, x := range map[string]*index{indexSuffix: &s.offsets, timeIndexSuffix: &s.times} {
		if !x.onDisk {
			continue
		}
		path := l.file(s.base, suffix)
		data, err := vfs.ReadFile(l.fs, path)
		if err != nil {
			return err
		}
		if err := checkIndex(data, x.entrySize, s.size); err != nil {
			return &FormatError{path, err}
		}
		x.close()
		x.heap, x.entries, x.onDisk = data, len(data)/x.entrySize, false
	}
	if s.sealed && s.aborted == nil {
		path := l.file(s.base, txnIndexSuffix)
		data, err := vfs.ReadFile(l.fs, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.aborted, err = parseAborted(data); err != nil {
			return &FormatError{path, err}
		}
	}
	return nil
}

// rewind takes a segment back to its last index entry.
func (s *segment) rewind() {
	s.size, s.next, s.hints = 0, s.base, [len(s.hints)]hint{}
	s.maxTimestamp, s.offsetOfMax, s.bytesSinceIndex = noTimestamp, s.base, 0
	if e, ok := s.times.last(); ok {
		s.maxTimestamp, s.offsetOfMax = e.a, s.base+e.b
	}
	if e, ok := s.offsets.last(); ok {
		s.size = e.b
	}
}

// growLocked goes over the batches behind the last index entry, up to a
// position and an offset. The time index is up to date at every entry of the
// offset index, so no others have to be looked at.
func (l *Log) growLocked(s *segment, end, offset int64) error {
	if end == 0 {
		return nil
	}
	file, err := l.openLocked(s)
	if err != nil {
		return err
	}
	buf := pageBuffers.Get().(*[pageSize]byte)
	defer pageBuffers.Put(buf)
	walk := scanner{f: file, dir: l.path, base: s.base, end: end, buf: buf[:0]}
	first, err := walk.next()
	if err != nil {
		return err
	}
	s.firstTimestamp = first.MaxTimestamp()
	walk.position = s.size
	for walk.position < end {
		b, err := walk.next()
		if err != nil {
			return err
		}
		if b.LastOffset() >= offset {
			break
		}
		s.note(b, s.size, l.cfg.IndexIntervalBytes)
		s.size, s.next = walk.position, b.NextOffset()
	}
	return nil
}

// writeEpochs makes the epochs durable: those of a leader that is gone must not
// come back for the offsets that were cut.
func (l *Log) writeEpochs() error {
	l.mu.Lock()
	entries, saved := l.epochs.entries, l.epochs.saved
	l.epochs.saved = entries
	l.mu.Unlock()
	if slices.Equal(entries, saved) {
		return nil
	}
	if err := writeAtomic(l.fs, filepath.Join(l.path, epochsFile), formatEpochs(entries)); err != nil {
		return err
	}
	return l.fs.SyncDir(l.path)
}

// copyHead replaces N.log by a copy of its first bytes. Its temporary name has
// the suffix of what is removed at every start, Kafka's too.
func (l *Log) copyHead(base int64, from *handle, size int64) (*handle, error) {
	tmp := l.file(base, logSuffix+deletedSuffix)
	f, err := l.fs.Create(tmp)
	if err != nil {
		return nil, err
	}
	if err = copyBytes(f, from, size); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.fs.Rename(tmp, l.file(base, logSuffix))
	}
	if err == nil {
		err = l.fs.SyncDir(l.path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return newHandle(f), nil
}

func copyBytes(to vfs.File, from io.ReaderAt, size int64) error {
	buf := scanBuffers.Get().(*[scanSize]byte)
	defer scanBuffers.Put(buf)
	for done := int64(0); done < size; {
		p := buf[:min(scanSize, size-done)]
		if n, err := from.ReadAt(p, done); n < len(p) {
			return err
		}
		if _, err := to.WriteAt(p, done); err != nil {
			return err
		}
		done += int64(len(p))
	}
	return nil
}

// dropSnapshotsLocked removes the producer snapshots above an offset.
func (l *Log) dropSnapshotsLocked(offset int64) error {
	l.snapshots = slices.DeleteFunc(l.snapshots, func(s snapshot) bool { return s.offset > offset })
	offsets, err := listSnapshots(l.fs, l.path)
	if err != nil {
		return l.failLocked(err)
	}
	for _, at := range offsets {
		if at <= offset {
			continue
		}
		if err := removeIfThere(l.fs, l.file(at, snapshotSuffix)); err != nil {
			return l.failLocked(fmt.Errorf("remove producer snapshot %d in %s: %w", at, l.path, err))
		}
		l.dirDirty = true
	}
	return nil
}

// truncateFully begins anew at an offset. syncing is held.
func (l *Log) truncateFully(offset int64) error {
	if err := l.lowerRecoveryPoint(min(offset, l.LogStartOffset())); err != nil {
		return err
	}
	l.mu.Lock()
	err := l.startAtLocked(offset)
	path := l.path
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.fs.SyncDir(path); err != nil {
		return l.fail(fmt.Errorf("sync directory %s: %w", path, err))
	}
	// The recovery point is the offset now: all below it counts as synced.
	if err := l.syncCreation(path, false); err != nil {
		return l.fail(err)
	}
	l.log.Info().Str("path", path).Int64("offset", offset).Msg("log emptied, goes on at a new offset")
	return nil
}

// removeAllLocked removes all segments and what is known of them. The epochs go
// first: without their file a start takes them from what batches there are.
func (l *Log) removeAllLocked() error {
	path := filepath.Join(l.path, epochsFile)
	if err := removeIfThere(l.fs, path); err != nil {
		return l.failLocked(fmt.Errorf("remove %s: %w", path, err))
	}
	l.epochs = epochCache{}
	if err := l.removeFromLocked(0); err != nil {
		return err
	}
	return l.dropSnapshotsLocked(-1)
}

func (l *Log) startAtLocked(offset int64) error {
	if err := l.removeAllLocked(); err != nil {
		return err
	}
	s, err := l.createLocked(offset)
	if err != nil {
		return l.failLocked(err)
	}
	l.segments = append(l.segments, s)
	l.leo, l.logStart, l.oldest, l.flushedTo = offset, offset, offset, offset
	l.producers, l.snapshots, l.snapshotAt = newProducerState(), nil, 0
	return nil
}
