package storage

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Run does what the logs need done in the background until ctx ends: it syncs
// closed segments and logs that are due by flush.ms, writes the checkpoints, forgets silent producers, removes
// deleted logs and what retention does not keep. highWatermarks is asked for
// what to checkpoint, and for what retention may look at; nil: nothing. It never
// fails: what fails takes its directory offline.
func (s *Store) Run(ctx context.Context, highWatermarks func() iter.Seq2[protocol.TopicPartition, int64]) error {
	var group sync.WaitGroup
	defer group.Wait()
	if highWatermarks != nil {
		// On its own: removing large files must not hold up the checkpoints.
		group.Go(func() { s.runRetention(ctx, highWatermarks) })
	}
	group.Go(func() { s.clock.run(ctx) })
	group.Go(func() { s.runSpace(ctx) })
	recovery := newTicker(s.cfg.RecoveryPointInterval)
	defer recovery.Stop()
	starts := newTicker(s.cfg.LogStartInterval)
	defer starts.Stop()
	watermarks := newTicker(s.cfg.HighWatermarkInterval)
	defer watermarks.Stop()
	expire := newTicker(s.cfg.ExpireInterval)
	defer expire.Stop()
	removal := time.NewTimer(0)
	defer removal.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.flushRolled(ctx)
			removal.Reset(s.untilRemoval())
		case <-removal.C:
			s.removeDeleted()
			removal.Reset(s.untilRemoval())
		case <-recovery.C:
			s.eachDir(s.checkpointRecoveryPoints)
		case <-starts.C:
			s.eachDir(s.checkpointLogStarts)
		case <-watermarks.C:
			if highWatermarks != nil {
				s.checkpointHighWatermarks(highWatermarks())
			}
		case <-expire.C:
			for _, l := range s.Logs() {
				l.ExpireProducers(s.cfg.Now())
			}
		}
	}
}

func (s *Store) runRetention(ctx context.Context, highWatermarks func() iter.Seq2[protocol.TopicPartition, int64]) {
	passes := newTicker(s.cfg.RetentionInterval)
	defer passes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-passes.C:
		case <-s.retainNow:
		}
		s.retain(ctx, highWatermarks())
	}
}

// newTicker returns a ticker; one that never ticks for no interval.
func newTicker(every time.Duration) *time.Ticker {
	if every <= 0 {
		t := time.NewTicker(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTicker(every)
}

// flushSoon puts a log on the list of those to be synced. It is called under
// the log's lock.
func (s *Store) flushSoon(l *Log) {
	s.flushMu.Lock()
	s.toFlush[l] = struct{}{}
	s.flushMu.Unlock()
	s.signal()
	if l.owner.tight() {
		s.retainSoon()
	}
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// flushRolled syncs the logs that have closed a segment, up to where the new
// one begins: the active one is left to the page cache.
func (s *Store) flushRolled(ctx context.Context) {
	for ctx.Err() == nil {
		var next *Log
		s.flushMu.Lock()
		for l := range s.toFlush {
			next = l
			delete(s.toFlush, l)
			break
		}
		s.flushMu.Unlock()
		if next == nil {
			return
		}
		// An error has taken the directory offline and been logged.
		_ = next.flushClosed()
	}
}

// eachDir does something for every directory in service. What fails takes its
// directory offline.
func (s *Store) eachDir(do func(*Dir) error) {
	for _, d := range s.dirs {
		if d.Err() != nil {
			continue
		}
		// Of a full volume watch tells.
		if err := do(d); err != nil && d.Err() != nil {
			s.log.Error().Err(err).Str("path", d.path).Msg("log directory has failed and is offline")
		}
	}
}

// checkpointRecoveryPoints writes the recovery points of a directory's logs.
func (s *Store) checkpointRecoveryPoints(d *Dir) error {
	logs := s.Logs()
	return d.save(recoveryPointFile, &d.recoveryPoints, func() map[protocol.TopicPartition]int64 {
		offsets := map[protocol.TopicPartition]int64{}
		for tp, l := range logs {
			if l.owner == d {
				offsets[tp] = l.FlushedTo()
			}
		}
		return offsets
	})
}

// checkpointLogStarts writes the log starts that the files do not show.
func (s *Store) checkpointLogStarts(d *Dir) error {
	logs := s.Logs()
	return d.save(logStartOffsetFile, &d.logStarts, func() map[protocol.TopicPartition]int64 {
		offsets := map[protocol.TopicPartition]int64{}
		for tp, l := range logs {
			if start, named := l.checkpointStart(); named && l.owner == d {
				offsets[tp] = start
			}
		}
		return offsets
	})
}

// saveLogStart makes sure that the checkpoint has the start of a log, along with
// those of all others: who comes at the same time finds the work done.
func (s *Store) saveLogStart(d *Dir, tp protocol.TopicPartition, start int64) error {
	if _, saved := d.saved(tp); saved >= start {
		return d.Err()
	}
	if err := s.checkpointLogStarts(d); err != nil {
		return d.Err() // the directory is offline now
	}
	return nil
}

// forget takes what the checkpoints say of a log that is no more out of them,
// before another one has its name: it would begin, and be believed, where the
// first one did. What else is gone goes with it.
func (s *Store) forget(d *Dir, tp protocol.TopicPartition) error {
	if !d.remembers(tp) {
		return nil
	}
	return d.forget(func(tp protocol.TopicPartition) bool {
		_, ok := s.Get(tp)
		return !ok
	})
}

func (s *Store) checkpointHighWatermarks(offsets iter.Seq2[protocol.TopicPartition, int64]) {
	sorted := byDir(s, offsets)
	s.eachDir(func(d *Dir) error { return d.saveHighWatermarks(sorted[d]) })
}

// untilRemoval is the time until a deleted log is due; long where there is none.
func (s *Store) untilRemoval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	for _, d := range s.deleted {
		if d.dir.tight() {
			return 0
		}
		wait = min(wait, max(d.at.Sub(s.cfg.Now()), 0))
	}
	return wait
}

// removeDeleted removes the deleted logs that are due.
func (s *Store) removeDeleted() {
	now := s.cfg.Now()
	var due []deletion
	s.mu.Lock()
	s.deleted = slices.DeleteFunc(s.deleted, func(d deletion) bool {
		if d.at.After(now) && !d.dir.tight() {
			return false
		}
		due = append(due, d)
		return true
	})
	s.mu.Unlock()
	for _, d := range due {
		if d.dir.Err() != nil {
			continue
		}
		if err := s.fs.RemoveAll(d.path); err != nil {
			d.dir.Fail(err)
			s.log.Error().Err(err).Str("path", d.path).Msg("deleted log cannot be removed, its directory is offline")
			continue
		}
		s.log.Info().Str("path", d.path).Msg("deleted log removed")
	}
}
