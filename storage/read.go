package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/klamm/klamm/protocol"
)

// Read returns whole batches from the one that holds offset on, of one
// segment: none that reaches limit (exclusive; the high watermark, the last
// stable offset, or math.MaxInt64 for everything), and not more than maxBytes,
// unless already the first is larger and minOneBatch is set. The slice is empty
// where nothing fits. The first batch may begin before offset: a reader skips
// what it has.
//
// Nothing is copied: the caller sends the bytes from the file or reads them,
// and releases the slice. It fails with protocol.ErrOffsetOutOfRange below the
// log start and above the log end, and with ErrCorruptMessage, naming file and
// position, where the file does not hold what it should.
func (l *Log) Read(offset int64, maxBytes int, limit int64, minOneBatch bool) (*Slice, error) {
	r := reader{log: l, offset: offset, limit: limit}
	for {
		found, err := r.openSegment()
		if err != nil {
			return nil, err
		}
		if !found {
			return emptySlice, nil
		}
		slice, err := r.slice(maxBytes, minOneBatch)
		r.offsets.done()
		if slice != nil && slice.file != nil {
			return slice, err // it has taken over the hold on the file
		}
		r.file.release()
		switch {
		case err != nil:
			return nil, l.readFailed(err)
		case slice != nil:
			return slice, nil
		}
		// The segment ends before the offset: compaction has left a gap.
		r.offset = r.end
		if r.offset >= limit {
			return emptySlice, nil
		}
	}
}

// reader finds the batches of one read. It holds the segment's file and looks
// into it without the log's lock.
type reader struct {
	log           *Log
	offset, limit int64

	base    int64
	file    *handle
	path    string
	offsets view
	size    int64 // of the segment's whole batches
	end     int64 // offset behind the segment
	last    bool  // it is the active segment
	start   int64 // position of the batch that starts at offset, if exact
	exact   bool
}

// openSegment takes hold of the segment that has offset. It reports false
// where there is nothing to read there.
func (r *reader) openSegment() (bool, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return false, err
	}
	if r.offset < l.logStart || r.offset > l.leo {
		return false, protocol.Errorf(protocol.ErrOffsetOutOfRange,
			"offset %d is not between %d and %d", r.offset, l.logStart, l.leo)
	}
	r.limit = min(r.limit, l.leo)
	if r.offset >= r.limit {
		return false, nil
	}
	i := l.segmentIndexLocked(r.offset)
	if i < 0 {
		return false, fmt.Errorf("%s has no segment for offset %d between log start %d and end %d",
			l.path, r.offset, l.logStart, l.leo)
	}
	return true, l.openReaderLocked(r, i)
}

// openReaderLocked takes hold of segment i.
func (l *Log) openReaderLocked(r *reader, i int) error {
	s := l.segments[i]
	file, err := l.openLocked(s)
	if err != nil {
		return err
	}
	if r.offsets, err = l.viewLocked(s, &s.offsets, indexSuffix); err != nil {
		return err
	}
	file.retain()
	r.base, r.file, r.path, r.size = s.base, file, l.path, s.size
	r.end, r.last = l.endLocked(i), i == len(l.segments)-1
	r.start, r.exact = s.findHint(r.offset)
	return nil
}

// slice returns what to read; nil where the segment has nothing at or behind
// the offset. A slice that is not empty has taken over the hold on the file.
func (r *reader) slice(maxBytes int, minOneBatch bool) (*Slice, error) {
	page := pageBuffers.Get().(*[pageSize]byte)
	defer pageBuffers.Put(page)
	walk := scanner{f: r.file, dir: r.path, base: r.base, position: r.start, end: r.size, buf: page[:0]}
	if !r.exact {
		if err := r.seek(&walk); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, nil
			}
			return nil, err
		}
	}
	start := walk.position
	if start >= r.size {
		return nil, nil
	}
	end, err := r.findEnd(&walk, start+int64(max(maxBytes, 0)), minOneBatch)
	if err != nil {
		return nil, err
	}
	if end == start {
		return emptySlice, nil
	}
	return &Slice{file: r.file, position: start, size: int(end - start)}, nil
}

// seek moves to the batch that holds the offset, or to the first behind it;
// io.EOF where there is none.
func (r *reader) seek(walk *scanner) error {
	walk.position = 0
	if err := r.skip(walk, r.offset); err != nil {
		return err
	}
	for {
		at := walk.position
		b, err := walk.next()
		if err != nil {
			return err
		}
		if b.LastOffset() >= r.offset {
			walk.position = at
			return nil
		}
	}
}

// skip moves to the last indexed batch that ends at or below an offset, if it
// is in front.
func (r *reader) skip(walk *scanner, offset int64) error {
	e, ok, err := r.offsets.floor(byFirst, offset-r.base)
	if err == nil && ok && e.b > walk.position {
		_, err = walk.jump(e)
	}
	if err != nil {
		return fmt.Errorf("read index of segment %d in %s: %w", r.base, r.path, err)
	}
	return nil
}

// findEnd returns the position behind the last batch that may be read.
func (r *reader) findEnd(walk *scanner, maxPosition int64, minOneBatch bool) (int64, error) {
	start := walk.position
	if maxPosition >= r.size && r.limit >= r.end {
		return r.size, nil
	}
	// Skip what is surely within both bounds.
	e, ok, err := r.offsets.floor(bySecond, min(maxPosition, r.size-1))
	if ok && r.limit < r.end && e.a >= r.limit-r.base {
		e, ok, err = r.offsets.floor(byFirst, r.limit-1-r.base)
	}
	if err == nil && ok && e.b > start {
		_, err = walk.jump(e)
	}
	if err != nil {
		return 0, fmt.Errorf("read index of segment %d in %s: %w", r.base, r.path, err)
	}
	next := int64(-1)
	for {
		at := walk.position
		b, err := walk.next()
		if errors.Is(err, io.EOF) {
			return r.remember(next, at), nil
		}
		if err != nil {
			return 0, err
		}
		fits := walk.position <= maxPosition || at == start && minOneBatch
		if !fits || b.NextOffset() > r.limit {
			return r.remember(b.BaseOffset(), at), nil
		}
		next = b.NextOffset()
	}
}

// remember notes where the next read will probably start, and returns it.
func (r *reader) remember(offset, position int64) int64 {
	if offset < 0 {
		return position
	}
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.segmentIndexLocked(offset); i >= 0 && l.segments[i].base == r.base && l.segments[i].file == r.file {
		l.segments[i].addHint(offset, position)
	}
	return position
}
