package storage

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// TimestampOffset is a record found by time.
type TimestampOffset struct {
	Offset      int64
	TimestampMs int64
	Epoch       protocol.LeaderEpoch // in which it was appended; −1 unknown
}

// OffsetForTimestamp returns the first record whose timestamp is at or after
// the one given, in ms; false where there is none. Timestamps need not rise:
// it is the first in the order of offsets.
func (l *Log) OffsetForTimestamp(timestampMs int64) (TimestampOffset, bool, error) {
	return l.search(timestampMs, l.LogStartOffset(), func(s *timeSearch) (int64, error) {
		e, _, err := s.times.floor(byFirst, timestampMs)
		return s.base + e.b, err
	})
}

// OffsetOfMaxTimestamp returns the first record with the largest timestamp of
// all (KIP-734); false in a log without records or timestamps. As in Kafka, a
// record below the log start counts for as long as its segment is there.
func (l *Log) OffsetOfMaxTimestamp() (TimestampOffset, bool, error) {
	largest := int64(noTimestamp)
	var where int64
	for from := int64(0); ; {
		s, err := l.openTimes(from)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if s == nil {
			break
		}
		if s.max.a > largest {
			largest, where = s.max.a, s.base+s.max.b
		}
		from = s.end
		s.done()
	}
	if largest == noTimestamp {
		return TimestampOffset{}, false, nil
	}
	return l.search(largest, 0, func(*timeSearch) (int64, error) { return where, nil })
}

// timeSearch looks for a timestamp in one segment, without the log's lock.
type timeSearch struct {
	reader
	times view
	max   entry // largest timestamp, and the offset relative to the base where it is
}

func (s *timeSearch) done() {
	s.file.release()
	s.offsets.done()
	s.times.done()
}

// search returns the first record at or after a time and at or after the offset
// start. near gives an offset in a segment before which none can be.
func (l *Log) search(timestampMs, start int64, near func(*timeSearch) (int64, error)) (TimestampOffset, bool, error) {
	for from := start; ; {
		s, err := l.openTimes(from)
		if err != nil || s == nil {
			return TimestampOffset{}, false, err
		}
		var found TimestampOffset
		ok := false
		if s.max.a >= timestampMs {
			var offset int64
			if offset, err = near(s); err == nil {
				found, ok, err = s.find(timestampMs, max(offset, from), start)
			}
		}
		s.done()
		if ok || err != nil {
			return found, ok, l.readFailed(err)
		}
		from = s.end
	}
}

// openTimes takes hold of the segment that has an offset; nil at the log end.
func (l *Log) openTimes(from int64) (*timeSearch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return nil, err
	}
	if from >= l.leo {
		return nil, nil
	}
	i := max(l.segmentIndexLocked(from), 0)
	s := &timeSearch{reader: reader{log: l, offset: from}}
	seg := l.segments[i]
	if err := l.openReaderLocked(&s.reader, i); err != nil {
		return nil, err
	}
	var err error
	if s.times, err = l.viewLocked(seg, &seg.times, timeIndexSuffix); err != nil {
		s.file.release()
		s.offsets.done()
		return nil, err
	}
	if !seg.times.onDisk {
		s.max = entry{seg.maxTimestamp, seg.offsetOfMax - seg.base}
		return s, nil
	}
	// A closed segment's last time entry is its largest timestamp.
	e, ok, err := s.times.floor(byFirst, math.MaxInt64)
	if err != nil {
		s.done()
		return nil, l.failLocked(fmt.Errorf("read time index of segment %d in %s: %w", s.base, s.path, err))
	}
	if !ok {
		e = entry{a: noTimestamp}
	}
	s.max = e
	return s, nil
}

// find returns the first record of the segment at or after a time and at or
// after the offset start; none is before the offset near.
func (s *timeSearch) find(timestampMs, near, start int64) (TimestampOffset, bool, error) {
	buf := pageBuffers.Get().(*[pageSize]byte)
	defer pageBuffers.Put(buf)
	walk := scanner{f: s.file, dir: s.path, base: s.base, end: s.size, buf: buf[:0]}
	if err := s.skip(&walk, near); err != nil {
		return TimestampOffset{}, false, err
	}
	for {
		b, err := walk.next()
		if errors.Is(err, io.EOF) {
			return TimestampOffset{}, false, nil
		}
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if b.MaxTimestamp() < timestampMs || b.LastOffset() < start {
			continue
		}
		whole, err := walk.records(b)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		found, ok, err := firstAt(whole, timestampMs, start)
		if err != nil {
			// Their CRC was not looked at.
			return found, false, &damage{walk.path(), walk.position - int64(len(whole)), err.Error()}
		}
		if ok {
			return found, true, nil
		}
	}
}

// errFound ends a walk over records early.
var errFound = errors.New("found")

// firstAt returns the first record of a batch at or after a time and an offset.
func firstAt(b batch.Batch, timestampMs, start int64) (TimestampOffset, bool, error) {
	var found TimestampOffset
	err := b.EachTime(func(offsetDelta int32, recordMs int64) error {
		offset := b.BaseOffset() + int64(offsetDelta)
		if recordMs < timestampMs || offset < start {
			return nil
		}
		found = TimestampOffset{offset, recordMs, protocol.LeaderEpoch(b.LeaderEpoch())}
		return errFound
	})
	if errors.Is(err, errFound) {
		return found, true, nil
	}
	return TimestampOffset{}, false, err
}
