package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// noTimestamp is a batch without a timestamp.
const noTimestamp = -1

// segment is one segment of a log: N.log and the files beside it. All of it is
// guarded by Log.mu, but the bytes below size, which do not change until a
// truncation replaces them.
//
// A segment is sealed once its bytes are synced and its index files hold
// everything; until then those do not exist. So a segment that has its N.index
// is complete, and one that has not is suspect at start: it gets its indexes
// again, and it must reach up to the next segment.
type segment struct {
	base    int64
	size    int64 // bytes of whole batches in N.log
	next    int64 // offset behind the last batch, of one that is not sealed
	created time.Time
	file    *handle // of N.log; nil until somebody uses it

	offsets index
	times   index
	aborted []abortedTxn // only while it is not sealed
	sealed  bool
	// stale: index files are there that are not to be believed.
	stale bool

	// bytesSinceIndex counts the log since the last index entry.
	bytesSinceIndex int64
	// maxTimestamp is the largest of all batches, offsetOfMax the last offset of
	// the first batch that has it. They are known for a segment that is not sealed.
	maxTimestamp int64
	offsetOfMax  int64
	// firstTimestamp is the largest timestamp of the first append, which the
	// segment's age counts from; noTimestamp while there is none.
	firstTimestamp int64

	hints    [8]hint
	nextHint int
}

// hint is a position that somebody will soon read from: where the last
// appends began and where the last reads ended.
type hint struct{ offset, position int64 }

func newSegment(base int64, now time.Time) *segment {
	return &segment{
		base: base, next: base, created: now,
		offsets:      index{entrySize: offsetEntrySize},
		times:        index{entrySize: timeEntrySize},
		maxTimestamp: noTimestamp, offsetOfMax: base, firstTimestamp: noTimestamp,
	}
}

func (s *segment) addHint(offset, position int64) {
	s.hints[s.nextHint] = hint{offset, position}
	s.nextHint = (s.nextHint + 1) % len(s.hints)
}

// findHint returns the position of a batch that starts at the offset.
func (s *segment) findHint(offset int64) (int64, bool) {
	for _, h := range s.hints {
		if h.offset == offset && h.position < s.size {
			return h.position, true
		}
	}
	return 0, offset == s.base
}

// note adds a batch that stands at position to the indexes. Every batch is
// looked at, not every append: a follower appends many at once.
func (s *segment) note(b batch.Batch, position int64, interval int32) {
	last := b.LastOffset()
	if ts := b.MaxTimestamp(); ts > s.maxTimestamp {
		s.maxTimestamp, s.offsetOfMax = ts, last
	}
	if s.bytesSinceIndex > int64(interval) {
		s.offsets.appendOffset(int32(last-s.base), position)
		s.noteTime()
		s.bytesSinceIndex = 0
	}
	s.bytesSinceIndex += int64(b.Size())
}

// noteTime adds the largest timestamp so far to the time index, if it is news.
func (s *segment) noteTime() {
	e, ok := s.times.last()
	if s.maxTimestamp > e.a || !ok && s.maxTimestamp > noTimestamp {
		s.times.appendTime(s.maxTimestamp, int32(s.offsetOfMax-s.base))
	}
}

// indexFull tells whether an index has no room for one more entry. The time
// index keeps one back for the last entry of a closed segment.
func (s *segment) indexFull(configured int32) bool {
	return s.offsets.entries >= s.offsets.maxEntries(configured) ||
		s.times.entries >= s.times.maxEntries(configured)-1
}

// close releases the files.
func (s *segment) close() {
	if s.file != nil {
		s.file.release()
		s.file = nil
	}
	s.offsets.close()
	s.times.close()
}

// openShared opens a file that exists, to be shared.
func openShared(fsys vfs.FS, path string, write bool) (*handle, error) {
	open := fsys.Open
	if write {
		open = fsys.OpenWrite
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return newHandle(f), nil
}

// writeIndexFiles writes and syncs the index files of a closed segment. The
// caller syncs the directory afterwards. N.index comes last and whole: it is
// the mark that the segment is sealed.
func writeIndexFiles(fsys vfs.FS, dir string, base int64, offsets, times []byte, aborted []abortedTxn) error {
	if len(aborted) > 0 {
		if err := writeAtomic(fsys, filepath.Join(dir, fileName(base, txnIndexSuffix)), appendAborted(nil, aborted)); err != nil {
			return fmt.Errorf("write transaction index of segment %d in %s: %w", base, dir, err)
		}
	}
	if err := writeAtomic(fsys, filepath.Join(dir, fileName(base, timeIndexSuffix)), times); err != nil {
		return fmt.Errorf("write time index of segment %d in %s: %w", base, dir, err)
	}
	if err := writeAtomic(fsys, filepath.Join(dir, fileName(base, indexSuffix)), offsets); err != nil {
		return fmt.Errorf("write index of segment %d in %s: %w", base, dir, err)
	}
	return nil
}

// removeIndexFiles removes the mark of a sealed segment, and what it stood for.
func removeIndexFiles(fsys vfs.FS, dir string, base int64) error {
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if err := removeIfThere(fsys, filepath.Join(dir, fileName(base, suffix))); err != nil {
			return err
		}
	}
	return nil
}

// removeSegmentFiles removes all files of a segment, N.log last, so that what
// a crash leaves is still taken for a segment.
func removeSegmentFiles(fsys vfs.FS, dir string, base int64) error {
	if err := removeIndexFiles(fsys, dir, base); err != nil {
		return err
	}
	return removeIfThere(fsys, filepath.Join(dir, fileName(base, logSuffix)))
}

func removeIfThere(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
