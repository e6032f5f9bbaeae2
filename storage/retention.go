package storage

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Retained is what one pass of retention did to a log.
type Retained struct {
	// Rolled: the active segment was closed, since it was old.
	Rolled bool
	// Segments is how many segments went, Start the log start afterwards.
	Segments int
	Start    int64
	// Bytes is what they took in the log, indexes not counted.
	Bytes int64
}

// Retain lets go of what the settings do not keep: closed segments whose
// records are all older than RetentionMs, the oldest ones for as long as
// RetentionBytes stay without them, and those below the log start. Nothing at
// or above the high watermark goes. An active segment whose records are all too
// old is closed and goes too; by size it never does.
//
// The active segment is also closed when it has been open for SegmentMs, so
// that the records of a topic that has become quiet can go one day.
func (l *Log) Retain(highWatermark int64) (Retained, error) {
	r, err := l.expire(highWatermark)
	if err != nil {
		return r, err
	}
	l.mu.Lock()
	before := l.sizeLocked()
	l.mu.Unlock()
	r.Segments, err = l.DeleteSegmentsBelowStart()
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Start, r.Bytes = l.logStart, max(before-l.sizeLocked(), 0)
	return r, err
}

// expire moves the log start behind the segments that are not kept.
func (l *Log) expire(highWatermark int64) (Retained, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r Retained
	if err := l.usableLocked(); err != nil || l.cutting {
		return r, err
	}
	now := l.now()
	aged, err := l.agesLocked(now)
	if err != nil {
		return r, err
	}
	n := expired(aged, retention{
		NowMs: now.UnixMilli(), Ms: l.cfg.RetentionMs, Bytes: l.cfg.RetentionBytes, HighWatermark: highWatermark,
	})
	active := l.activeLocked()
	_, age := l.rollAtLocked()
	if n == len(l.segments) || active.size > 0 && now.Sub(active.created).Milliseconds() > age {
		if err := l.rollLocked(appendSet{first: l.leo, next: l.leo}); err != nil {
			return r, err
		}
		r.Rolled = true
	}
	if n > 0 && l.segments[n].base > l.logStart {
		l.logStart = l.segments[n].base
		l.epochs.truncateFromStart(l.logStart)
	}
	return r, nil
}

// agedSegment is what retention looks at.
type agedSegment struct {
	End    int64 // offset behind the segment
	Size   int64
	Active bool
	// NewestMs is the largest timestamp of its records; where none has one, the
	// time when the file was last written.
	NewestMs int64
}

// agesLocked describes the segments, the oldest first. It stops behind the
// first that is too young, since the age of those behind it does not matter;
// the rest have the newest time there is.
func (l *Log) agesLocked(now time.Time) ([]agedSegment, error) {
	aged := make([]agedSegment, len(l.segments))
	old := l.cfg.RetentionMs >= 0
	for i, s := range l.segments {
		a := agedSegment{End: l.endLocked(i), Size: s.size, Active: i == len(l.segments)-1, NewestMs: math.MaxInt64}
		if old && !(a.Active && a.Size == 0) { // that one stays, and its age would be a look at the disk
			newest, err := l.newestLocked(s)
			if err != nil {
				return nil, err
			}
			a.NewestMs = newest
			old = tooOld(newest, now.UnixMilli(), l.cfg.RetentionMs)
		}
		aged[i] = a
	}
	return aged, nil
}

// newestLocked returns the largest timestamp in a segment. For a closed one
// that is a read of its time index.
func (l *Log) newestLocked(s *segment) (int64, error) {
	newest := s.maxTimestamp
	if s.times.onDisk {
		v, err := l.viewLocked(s, &s.times, timeIndexSuffix)
		if err != nil {
			return 0, err
		}
		defer v.done()
		e, ok, err := v.floor(byFirst, math.MaxInt64)
		if err != nil {
			return 0, l.failLocked(fmt.Errorf("read time index of segment %d in %s: %w", s.base, l.path, err))
		}
		if newest = noTimestamp; ok {
			newest = e.a
		}
	}
	if newest > noTimestamp {
		return newest, nil
	}
	info, err := l.fs.Stat(l.file(s.base, logSuffix))
	if err != nil {
		return 0, l.failLocked(fmt.Errorf("look at segment %d of %s: %w", s.base, l.path, err))
	}
	return info.Modified.UnixMilli(), nil
}

// retention is what is to be kept.
type retention struct {
	NowMs         int64
	Ms            int64 // −1: records of any age
	Bytes         int64 // −1: any size
	HighWatermark int64
}

func tooOld(newestMs, nowMs, keepMs int64) bool { return keepMs >= 0 && nowMs-newestMs > keepMs }

// expired returns how many segments, from the oldest on, are not kept. It stops
// at the first that is: a log has no holes.
func expired(segments []agedSegment, keep retention) int {
	size := int64(0)
	for _, s := range segments {
		size += s.Size
	}
	for i, s := range segments {
		if s.Active && s.Size == 0 || s.End > keep.HighWatermark {
			return i
		}
		tooMuch := keep.Bytes >= 0 && size-s.Size >= keep.Bytes
		if !tooMuch && !tooOld(s.NewestMs, keep.NowMs, keep.Ms) {
			return i
		}
		size -= s.Size
	}
	return len(segments)
}

// retain makes a pass of retention over the logs that have a high watermark.
func (s *Store) retain(ctx context.Context, highWatermarks iter.Seq2[protocol.TopicPartition, int64]) {
	for tp, highWatermark := range highWatermarks {
		if ctx.Err() != nil {
			return
		}
		l, ok := s.Get(tp)
		if !ok {
			continue
		}
		r, err := l.Retain(highWatermark)
		if err != nil {
			continue // it was deleted meanwhile, or its directory is offline, which was logged
		}
		if r.Segments > 0 {
			s.log.Info().Str("topic", tp.Topic).Int32("partition", tp.Partition).Int("segments", r.Segments).
				Int64("bytes", r.Bytes).Int64("log_start_offset", r.Start).Msg("retention removed segments")
		}
	}
}
