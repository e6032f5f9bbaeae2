package replay

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/snapshot"
)

// SnapshotPace says when snapshots are taken.
type SnapshotPace struct {
	// Take has a snapshot taken of what is applied; raftlog.Log.TakeSnapshot.
	Take func(ctx context.Context) error
	// Bytes of records after which a snapshot is taken: more means fewer
	// snapshots and a longer start. metadata.log.max.record.bytes.between.snapshots.
	Bytes int64
	// Age of the newest snapshot at which the next is taken if there is anything
	// new; 0 for never. metadata.log.max.snapshot.interval.ms.
	Age time.Duration
	// Trim is the time between two looks at what of the log may go.
	Trim time.Duration
}

// behind is how many bytes of batches no snapshot holds.
func (r *Replayer) behind() int64 { return r.size.Load() - r.covered.Load() }

// snapshotRetry is the pause after a snapshot that could not be taken: while
// Raft repeats what the log has, a metadata transaction is open, or no office is
// filled yet.
const snapshotRetry = 5 * time.Second

// unnoticedPause is the pause after a snapshot that seemed to have nothing new.
const unnoticedPause = 100 * time.Millisecond

// wakeup is a subscriber that only says that there is something new.
type wakeup chan struct{}

// Publish leaves a token. One token stands for all news: whoever takes it looks
// at everything.
func (w wakeup) Publish(*metadata.Delta, *metadata.Image) {
	select {
	case w <- struct{}{}:
	default:
	}
}

// RunSnapshots has snapshots taken at their pace and lets go of the part of the
// log that they make unnecessary, until ctx ends. A snapshot that fails is tried
// again: the log is still there.
func (r *Replayer) RunSnapshots(ctx context.Context, pace SnapshotPace) error {
	news := make(wakeup, 1)
	r.Subscribe(news)
	newest, err := r.newestSnapshot()
	if err != nil {
		return err
	}
	trim := time.NewTicker(pace.Trim)
	defer trim.Stop()
	age := time.NewTimer(pace.wait(newest))
	defer age.Stop()
	retry := time.NewTimer(0) // after a failed try, the earliest time of the next
	defer retry.Stop()
	ready := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
			ready = true
		case <-news:
		case <-age.C:
		case <-trim.C:
			r.trim()
			continue
		}
		if !ready || !pace.due(r.behind(), time.Since(newest)) {
			age.Reset(pace.wait(newest))
			continue
		}
		behind, covered := r.behind(), r.covered.Load()
		if err := pace.Take(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			r.log.Info().Err(err).Msg("no snapshot could be taken yet, trying again")
			ready = false
			retry.Reset(snapshotRetry)
			continue
		}
		if r.covered.Load() == covered {
			// Raft does not yet know what has just been applied to be applied.
			ready = false
			retry.Reset(unnoticedPause)
			continue
		}
		newest = time.Now()
		age.Reset(pace.wait(newest))
		r.log.Info().Int64("bytes", behind).Int64("offset", r.Image().Offset()).Msg("snapshot taken")
		r.trim()
	}
}

// due tells whether a snapshot is to be taken that lacks so many bytes of the
// log and is so old.
func (p SnapshotPace) due(behind int64, age time.Duration) bool {
	return behind >= p.Bytes || p.Age > 0 && behind > 0 && age >= p.Age
}

// wait is the time until age alone makes a snapshot due; long where it never does.
func (p SnapshotPace) wait(newest time.Time) time.Duration {
	left := p.Age - time.Since(newest)
	if p.Age <= 0 || left <= 0 {
		// Overdue, but with nothing new: the next record says so.
		return time.Hour
	}
	return left
}

// newestSnapshot is when the newest checkpoint was written; now where there is none.
func (r *Replayer) newestSnapshot() (time.Time, error) {
	ids, err := snapshot.Checkpoints(r.cfg.FS, r.cfg.Dir)
	if err != nil || len(ids) == 0 {
		return time.Now(), err
	}
	path := filepath.Join(r.cfg.Dir, ids[len(ids)-1].FileName())
	info, err := r.cfg.FS.Stat(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("look at checkpoint %s: %w", path, err)
	}
	return info.Modified, nil
}

// trim lets go of segments that lie below the oldest checkpoint that is kept,
// as far as the log's retention says. The oldest, so that a start can still fall
// back to it. Failures have taken the log out of service, which its next append
// reports.
func (r *Replayer) trim() {
	ids, err := snapshot.Checkpoints(r.cfg.FS, r.cfg.Dir)
	if err != nil || len(ids) == 0 {
		if err != nil {
			r.log.Warn().Err(err).Msg("metadata log was not trimmed")
		}
		return
	}
	trimmed, err := r.cfg.Log.Retain(ids[0].Offset)
	switch {
	case err != nil:
		r.log.Error().Err(err).Msg("metadata log was not trimmed")
	case trimmed.Segments > 0:
		r.log.Info().Int("segments", trimmed.Segments).Int64("bytes", trimmed.Bytes).
			Int64("log_start_offset", trimmed.Start).Msg("metadata log trimmed")
	}
}
