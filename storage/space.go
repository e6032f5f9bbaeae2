package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// A volume that fills up is met in two steps. While it is tight, logs that their
// topics do not keep for good roll early, so that retention can let go of more,
// retention runs after each such roll, and deleted logs are removed at once. What
// clients append is refused when no more is left than the reserve, and what a
// follower's leader sends at half of it. The reserve is for the metadata, the
// coordinators' records, indexes and checkpoints: topics can be deleted and settings
// changed on a disk that is full to everybody else. The directory stays in service,
// and appends go on when there is space again.

// tightBelow is how many free bytes of a volume make it tight: an eighth, or of a
// small one a half, where a few segments are a large part of it.
func tightBelow(total int64) int64 { return max(total/8, min(total/2, 1<<30)) }

// reserve is what is kept of a volume.
func reserve(total int64) int64 { return min(total/20, 256<<20) }

// Under pressure a segment is closed at half of what its topic keeps, but not
// below these.
const (
	leastTightBytes = 1 << 20
	leastTightMs    = 1000
)

// space is what is left on the volume of a log directory.
type space struct {
	total atomic.Int64 // bytes; 0 where nobody knows, and nothing is bounded
	free  atomic.Int64 // at the last look, less what was appended since
}

// look asks the volume. It fails where the volume cannot be asked, which changes
// nothing.
func (d *Dir) look() error {
	total, free, err := vfs.Space(d.fs, d.path)
	if err != nil {
		return fmt.Errorf("ask for the space left in %s: %w", d.path, err)
	}
	d.space.free.Store(free)
	d.space.total.Store(max(total, 0))
	return nil
}

// tight tells whether the volume is short of space.
func (d *Dir) tight() bool {
	if d == nil {
		return false
	}
	total := d.space.total.Load()
	return total > 0 && d.space.free.Load() < tightBelow(total)
}

// admit refuses an append that would take from the reserve; one of a coordinator, or of
// a follower, may take half of it.
func (d *Dir) admit(n int64, half bool) error {
	if d == nil {
		return nil
	}
	total := d.space.total.Load()
	keep := reserve(total)
	if half {
		keep /= 2
	}
	if total == 0 || d.space.free.Load()-n >= keep {
		return nil
	}
	// Space may have been freed since the last look.
	if err := d.look(); err != nil {
		return err
	}
	if free := d.space.free.Load(); free-n < keep {
		return fmt.Errorf("%w: log directory %s has %d bytes left, of which %d are kept for metadata", protocol.ErrKafkaStorageError, d.path, free, keep)
	}
	return nil
}

// appended counts what went to the volume since the last look.
func (d *Dir) appended(n int64) {
	if d != nil {
		d.space.free.Add(-n)
	}
}

// isFull tells whether an error is that of a volume without space.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// rollAtLocked gives size and age in ms at which the active segment is closed:
// those of the settings, or less while space is tight and the topic does not keep
// its records for good.
func (l *Log) rollAtLocked() (bytes, ms int64) {
	bytes, ms = int64(l.cfg.SegmentBytes), l.cfg.SegmentMs-l.cfg.SegmentJitterMs
	if !l.owner.tight() {
		return bytes, ms
	}
	if l.cfg.RetentionBytes >= 0 {
		bytes = min(bytes, max(l.cfg.RetentionBytes/2, leastTightBytes))
	}
	if l.cfg.RetentionMs >= 0 {
		ms = min(ms, max(l.cfg.RetentionMs/2, leastTightMs))
	}
	return bytes, ms
}

// spaceInterval is the time between two looks at the volumes. In between, what is
// appended is counted.
const spaceInterval = time.Second

// runSpace looks at the volumes until ctx ends, and says when they fill up.
func (s *Store) runSpace(ctx context.Context) {
	said := make([]string, len(s.dirs))
	ticker := time.NewTicker(spaceInterval)
	defer ticker.Stop()
	for {
		for i, d := range s.dirs {
			if d.Err() == nil {
				said[i] = s.watch(d, said[i])
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// What watch says of a volume.
const (
	volumeTight = "log directory is short of space: segments roll and go early"
	volumeFull  = "log directory is full: what clients append is refused until space is freed"
	volumeFine  = "log directory has space again"
)

// watch looks at a volume, has freed what can be freed, and says how things are
// if that is news. A volume that cannot be asked is as it was.
func (s *Store) watch(d *Dir, said string) string {
	if err := d.look(); err != nil {
		s.log.Warn().Err(err).Msg("space left on a volume is unknown")
		return said
	}
	total, free := d.space.total.Load(), d.space.free.Load()
	now, event := volumeFine, s.log.Info()
	switch {
	case total > 0 && free <= reserve(total):
		now, event = volumeFull, s.log.Error()
	case d.tight():
		now, event = volumeTight, s.log.Warn()
	}
	if now != volumeFine {
		s.retainSoon()
		s.signal()
	}
	if now != said && (said != "" || now != volumeFine) {
		event.Str("path", d.path).Int64("free", free).Int64("total", total).Msg(now)
	}
	return now
}

// retainSoon has retention make a pass.
func (s *Store) retainSoon() {
	select {
	case s.retainNow <- struct{}{}:
	default:
	}
}
