package storage

import (
	"fmt"

	"github.com/klamm/klamm/protocol"
)

// AdvanceLogStart raises the first offset that can be read (DeleteRecords,
// retention). At or below the present one it does nothing. The records go with
// their segments (DeleteSegmentsBelowStart); the offset itself is durable with
// the next checkpoint.
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

// checkpointStart returns the offset for the log-start checkpoint, and whether
// the checkpoint must name it: the first segment's base says the same otherwise.
func (l *Log) checkpointStart() (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logStart, len(l.segments) > 0 && l.logStart > l.segments[0].base
}
