package storage

import (
	"fmt"

	"github.com/klamm/klamm/protocol"
)

// AdvanceLogStart raises the first offset that can be read (DeleteRecords,
// retention). At or below the present one it does nothing. The records go with
// their segments (DeleteSegmentsBelowStart); the offset itself is durable with
// SaveLogStart, or the next checkpoint.
func (l *Log) AdvanceLogStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if offset > l.leo {
		return protocol.Errorf(protocol.ErrOffsetOutOfRange, "offset %d is above the log end %d", offset, l.leo)
	}
	if offset > l.logStart {
		l.logStart = offset
		l.epochs.truncateFromStart(offset)
	}
	return nil
}

// SaveLogStart makes the log start durable, together with those of the other logs
// in the directory: records that somebody was told are gone do not come back.
func (l *Log) SaveLogStart() error {
	start, named := l.checkpointStart()
	if !named || l.opts.SaveLogStart == nil {
		return nil
	}
	return l.opts.SaveLogStart(start)
}

// DeleteSegmentsBelowStart removes the segments that lie below the log start
// altogether, the oldest first, with their producer snapshots, and returns how
// many. The active segment stays. Reads that are under way keep their bytes.
func (l *Log) DeleteSegmentsBelowStart() (int, error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	removed := 0
	for {
		l.mu.Lock()
		if err := l.usableLocked(); err != nil || len(l.segments) == 1 || l.segments[1].base > l.logStart {
			l.mu.Unlock()
			if removed > 0 && err == nil {
				err = l.syncRemoval()
			}
			return removed, err
		}
		s, path := l.segments[0], l.path
		l.segments = l.segments[1:]
		s.close()
		l.mu.Unlock()
		if err := removeSegmentFiles(l.fs, path, s.base); err != nil {
			return removed, l.fail(fmt.Errorf("remove segment %d of %s: %w", s.base, path, err))
		}
		if err := removeIfThere(l.fs, l.file(s.base, snapshotSuffix)); err != nil {
			return removed, l.fail(fmt.Errorf("remove producer snapshot %d of %s: %w", s.base, path, err))
		}
		removed++
	}
}

// syncRemoval makes durable that the oldest segments are gone. Until then the
// checkpoint names the log start, since a power cut may bring them back.
func (l *Log) syncRemoval() error {
	l.mu.Lock()
	path, base := l.path, l.segments[0].base
	l.mu.Unlock()
	if err := l.fs.SyncDir(path); err != nil {
		return l.fail(fmt.Errorf("sync directory %s: %w", path, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oldest = base
	return nil
}

// checkpointStart returns the offset for the log-start checkpoint, and whether
// the checkpoint must name it: the first segment's base says the same otherwise.
func (l *Log) checkpointStart() (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logStart, len(l.segments) > 0 && l.logStart > l.oldest
}
