package storage

import (
	"fmt"
	"math"

	"github.com/klamm/klamm/protocol"
)

// shouldRollLocked tells whether an append must begin a new segment.
func (l *Log) shouldRollLocked(bytes int64, set appendSet) bool {
	s := l.activeLocked()
	if set.next-1-s.base > math.MaxInt32 {
		return true // offsets in the indexes are relative to the base
	}
	if s.size == 0 {
		return false
	}
	size, age := l.rollAtLocked()
	return s.size+bytes > size || l.ageLocked(s, set.maxTimestamp) > age ||
		s.indexFull(l.cfg.SegmentIndexBytes)
}

// ageLocked is how long in ms a segment has been open at an append: by the
// records' time where they have one, so that a replica that catches up makes
// the same segments as its leader.
func (l *Log) ageLocked(s *segment, maxTimestamp int64) int64 {
	if s.firstTimestamp >= 0 {
		return maxTimestamp - s.firstTimestamp
	}
	return l.now().Sub(s.created).Milliseconds()
}

// Roll closes the active segment and begins the next, if it holds anything.
func (l *Log) Roll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if l.activeLocked().size == 0 {
		return nil
	}
	return l.rollLocked(appendSet{first: l.leo, next: l.leo})
}

// rollLocked begins a segment for an append. The old one's indexes and the
// producers' state stay on the heap until somebody flushes; only the new
// N.log is made here.
//
// The new segment begins where the old one ends, even if the next batch does
// not: a gap between the two is how a start finds that a power cut has taken
// the end of the old one. Only where an offset would not fit it begins later.
func (l *Log) rollLocked(set appendSet) error {
	old := l.activeLocked()
	base := old.next
	if set.next-1-base > math.MaxInt32 {
		base = set.first
	}
	if old.size == 0 {
		// Nothing was ever written to it, and its base is too far away.
		if err := l.removeEmptyLocked(old); err != nil {
			return err
		}
	}
	s, err := l.createLocked(base)
	switch {
	case err != nil && isFull(err) && old.size > 0:
		return fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err) // nothing has changed
	case err != nil:
		return l.failLocked(err)
	case old.sealed:
		old.sealedLocked() // nothing was appended since it was opened
	case old.size > 0:
		old.noteTime()
	}
	if old.size > 0 {
		l.snapshotLocked(l.leo)
	}
	l.segments = append(l.segments, s)
	if l.opts.FlushSoon != nil {
		l.opts.FlushSoon(l)
	}
	return nil
}

// snapshotLocked takes a snapshot of the producers before an offset. A flush
// writes it.
func (l *Log) snapshotLocked(offset int64) {
	l.snapshots = append(l.snapshots, snapshot{offset, appendSnapshot(nil, l.producers)})
	l.snapshotAt = offset
}

// createLocked makes the N.log of a new, empty segment.
func (l *Log) createLocked(base int64) (*segment, error) {
	s := newSegment(base, l.now())
	f, err := l.fs.Create(l.file(base, logSuffix))
	if err != nil {
		return nil, fmt.Errorf("create segment %d of %s: %w", base, l.path, err)
	}
	s.file = newHandle(f)
	l.dirDirty = true
	return s, nil
}

// removeEmptyLocked takes the empty active segment away.
func (l *Log) removeEmptyLocked(s *segment) error {
	s.close()
	if err := removeSegmentFiles(l.fs, l.path, s.base); err != nil {
		return l.failLocked(fmt.Errorf("remove empty segment %d of %s: %w", s.base, l.path, err))
	}
	l.dirDirty = true
	l.segments = l.segments[:len(l.segments)-1]
	return nil
}

// unsealLocked removes the index files of a segment that is about to grow: as
// long as they are gone a crash makes them anew.
func (l *Log) unsealLocked(s *segment) error {
	if err := removeIndexFiles(l.fs, l.path, s.base); err != nil {
		return l.failLocked(fmt.Errorf("remove indexes of active segment %d of %s: %w", s.base, l.path, err))
	}
	s.sealed, s.stale = false, false
	l.dirDirty = true
	return nil
}
