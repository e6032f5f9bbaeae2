package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// StoreConfig are the settings of a Store.
type StoreConfig struct {
	// LogConfig returns the settings of a topic's logs when they are opened or
	// created. Nil: the defaults.
	LogConfig func(topic string) LogConfig
	// IsStray tells whether a log that was found does not belong on this node:
	// it is set aside under a -stray name for the operator. Nil: none does.
	IsStray func(tp protocol.TopicPartition, topicID protocol.UUID) bool
	// RecoveryThreads is how many logs of one directory are opened at a time.
	// num.recovery.threads.per.data.dir.
	RecoveryThreads int
	// RecoveryPointInterval, LogStartInterval and HighWatermarkInterval are the
	// times between two checkpoints: less means more small writes, more a longer
	// recovery, and records that come back after a crash though they were
	// deleted. log.flush.offset.checkpoint.interval.ms,
	// log.flush.start.offset.checkpoint.interval.ms,
	// replica.high.watermark.checkpoint.interval.ms.
	RecoveryPointInterval time.Duration
	LogStartInterval      time.Duration
	HighWatermarkInterval time.Duration
	// RetentionInterval is the time between two passes of retention: less frees
	// disk sooner, more spares a look at every log. log.retention.check.interval.ms.
	RetentionInterval time.Duration
	// ExpireInterval is the time between two searches for silent producers.
	// producer.id.expiration.check.interval.ms.
	ExpireInterval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// DefaultStoreConfig returns Kafka's defaults.
func DefaultStoreConfig() StoreConfig {
	return StoreConfig{
		RecoveryThreads:       2,
		RecoveryPointInterval: time.Minute, LogStartInterval: time.Minute,
		HighWatermarkInterval: 5 * time.Second, ExpireInterval: 10 * time.Minute,
		RetentionInterval: 5 * time.Minute,
	}
}

// Store is the logs of a node's log directories. All methods may be called
// from several goroutines. Lock order: changing, Log.syncing, Dir.checkpoint,
// Store.mu, Log.mu, and flushMu under all of them.
type Store struct {
	fs   vfs.FS
	cfg  StoreConfig
	dirs []*Dir
	log  zerolog.Logger

	// changing is held by whoever creates or takes away a log, over the disk's
	// work, so that one name has one log at a time.
	changing sync.Mutex

	mu   sync.Mutex
	logs map[protocol.TopicPartition]*Log
	// deleted are directories under a -delete name, by when they go.
	deleted []deletion
	closed  bool

	// wake tells Run that toFlush or deleted has something new. Size 1: Run
	// looks at everything each time, so one token stands for all.
	wake    chan struct{}
	flushMu sync.Mutex
	toFlush map[*Log]struct{}
	// retainNow asks for a pass of retention. Size 1: one pass does for all.
	retainNow chan struct{}

	clock *flushClock // has its own lock, under all of the others
}

// deletion is a directory that is to be removed.
type deletion struct {
	dir  *Dir
	path string
	at   time.Time
}

// OpenStore opens all logs in directories that belong together, each
// directory's in parallel, after it has removed their marks of a clean
// shutdown. A directory whose disk fails goes offline and the others serve;
// a directory that is no replica's is an error, as it is for Kafka.
func OpenStore(ctx context.Context, fsys vfs.FS, dirs []*Dir, cfg StoreConfig, log zerolog.Logger) (*Store, error) {
	if err := CheckDirs(dirs); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.LogConfig == nil {
		cfg.LogConfig = func(string) LogConfig { return DefaultLogConfig() }
	}
	s := &Store{
		fs: fsys, cfg: cfg, dirs: dirs, log: log, logs: map[protocol.TopicPartition]*Log{},
		wake: make(chan struct{}, 1), toFlush: map[*Log]struct{}{}, clock: newFlushClock(), retainNow: make(chan struct{}, 1),
	}
	found, err := s.findLogs()
	if err == nil {
		err = inParallel(len(dirs), dirs, func(d *Dir) error { return s.openDir(ctx, d, found[d]) })
	}
	if err != nil {
		for _, l := range s.logs {
			l.abandon()
		}
		return nil, err
	}
	return s, nil
}

// inParallel calls do for each item, n at a time, and returns its first error,
// after which no more calls are begun.
func inParallel[T any](n int, items []T, do func(T) error) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, max(n, 1)) // one token per call that runs
	var failed atomic.Pointer[error]
	for _, item := range items {
		slots <- struct{}{}
		if failed.Load() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			if err := do(item); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// foundLog is a replica's directory.
type foundLog struct {
	tp   protocol.TopicPartition
	path string
}

// findLogs lists the logs in all directories. It changes nothing, so that a
// start that is refused leaves the marks of a clean shutdown.
func (s *Store) findLogs() (map[*Dir][]foundLog, error) {
	found := map[*Dir][]foundLog{}
	for _, d := range s.dirs {
		entries, err := s.fs.ReadDir(d.path)
		if err != nil {
			if err := s.dirFailed(d, err); err != nil {
				return nil, err
			}
			continue
		}
		for _, e := range entries {
			if !e.IsDir {
				continue
			}
			path := filepath.Join(d.path, e.Name)
			switch tp, kind := parseDirName(e.Name); kind {
			case dirUnknown:
				return nil, fmt.Errorf("found directory %s: %q is not in the form of topic-partition or "+
					"topic-partition.uniqueId-delete; a log directory may only hold replicas", path, e.Name)
			case dirDeleted:
				s.deleteLater(d, path, s.cfg.LogConfig(tp.Topic))
			case dirLog:
				found[d] = append(found[d], foundLog{tp, path})
			}
		}
	}
	return found, nil
}

// openDir opens the logs of one directory.
func (s *Store) openDir(ctx context.Context, d *Dir, found []foundLog) error {
	if d.Err() != nil {
		return nil
	}
	began := s.cfg.Now()
	err := d.beginUse(func(err error) {
		s.log.Warn().Err(err).Msg("checkpoint is unreadable, starting without it")
	})
	if err != nil {
		return s.dirFailed(d, err)
	}
	if err := inParallel(s.cfg.RecoveryThreads, found, func(f foundLog) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.openLog(d, f.path, f.tp)
	}); err != nil {
		return err
	}
	s.log.Info().Str("path", d.path).Int("logs", len(found)).Bool("clean", d.clean).
		Dur("took", s.cfg.Now().Sub(began)).Msg("log directory opened")
	return nil
}

// openLog opens one log that was found.
func (s *Store) openLog(d *Dir, path string, tp protocol.TopicPartition) error {
	if d.Err() != nil {
		return nil // offline meanwhile
	}
	opts := s.options(d, tp)
	opts.Clean = d.clean
	opts.RecoveryPoint, opts.LogStartOffset = d.saved(tp)
	l, err := OpenLog(s.fs, path, opts)
	if err != nil {
		return s.dirFailed(d, err)
	}
	if s.cfg.IsStray != nil && s.cfg.IsStray(tp, l.TopicID()) {
		return s.setAside(d, l, tp)
	}
	s.mu.Lock()
	other := s.logs[tp]
	begun := !l.unbegun()
	replaces := other == nil || begun && other.unbegun()
	if replaces {
		s.logs[tp] = l
	}
	s.mu.Unlock()
	switch {
	case other == nil:
		return nil
	case replaces:
		return s.setAside(other.owner, other, tp)
	case !begun:
		return s.setAside(d, l, tp)
	}
	l.abandon()
	return fmt.Errorf("%s is in both %s and %s: remove the older of the two", tp, other.Path(), path)
}

func (s *Store) options(d *Dir, tp protocol.TopicPartition) LogOptions {
	return LogOptions{
		Config: s.cfg.LogConfig(tp.Topic), Dir: d, FlushSoon: s.flushSoon, FlushWithin: s.clock.within, Now: s.cfg.Now, Log: s.log,
		BeforeTruncate: func(offset int64) error { return d.lowerRecoveryPoint(tp, offset) },
		SaveLogStart:   func(start int64) error { return s.saveLogStart(d, tp, start) },
	}
}

// dirFailed takes a directory offline where its disk is at fault. Files that
// say what they must not are an error of the start: somebody has to look.
func (s *Store) dirFailed(d *Dir, err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) && !errors.Is(err, protocol.ErrKafkaStorageError) {
		return err
	}
	d.Fail(err)
	s.log.Error().Err(err).Str("path", d.path).Msg("log directory has failed at start and is offline")
	return nil
}

// Get returns the log of a partition.
func (s *Store) Get(tp protocol.TopicPartition) (*Log, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logs[tp]
	return l, ok
}

// Logs yields all logs that are there at the call.
func (s *Store) Logs() iter.Seq2[protocol.TopicPartition, *Log] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.All(maps.Clone(s.logs))
}

// Dirs returns the log directories.
func (s *Store) Dirs() []*Dir { return s.dirs }

// HighWatermark returns the high watermark that was checkpointed last, 0 where
// there is none.
func (s *Store) HighWatermark(tp protocol.TopicPartition) int64 {
	l, ok := s.Get(tp)
	if !ok {
		return 0
	}
	return min(l.owner.savedHighWatermark(tp), l.LEO())
}

// Create makes a log, or returns the one that is there if it has the topic id;
// protocol.ErrInconsistentTopicID otherwise. A nil dir leaves the choice to the
// store: the directory with the fewest logs. The files become durable with the
// log's first flush.
func (s *Store) Create(tp protocol.TopicPartition, topicID protocol.UUID, dir *Dir) (*Log, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	l, closed := s.logs[tp], s.closed
	if dir == nil {
		dir = s.emptiestLocked()
	}
	s.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case l != nil:
		if err := l.AssignTopicID(topicID); err != nil {
			return nil, err
		}
		return l, nil
	case dir == nil:
		return nil, fmt.Errorf("create log of %s: all log directories are offline: %w", tp, protocol.ErrKafkaStorageError)
	case dir.Err() != nil:
		return nil, dir.Err()
	}
	if err := s.forget(dir, tp); err != nil {
		return nil, err
	}
	opts := s.options(dir, tp)
	opts.TopicID, opts.Clean = topicID, true
	l, err := OpenLog(s.fs, filepath.Join(dir.path, tp.String()), opts)
	if err != nil {
		if errors.Is(err, protocol.ErrKafkaStorageError) {
			dir.Fail(err)
			// It is begun in another directory next. What can not be removed now, the next start sets aside.
			_ = s.fs.RemoveAll(filepath.Join(dir.path, tp.String()))
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[tp] = l
	return l, nil
}

// emptiestLocked returns the directory in service that has the fewest logs.
func (s *Store) emptiestLocked() *Dir {
	count := map[*Dir]int{}
	for _, l := range s.logs {
		count[l.owner]++
	}
	var best *Dir
	for _, d := range s.dirs {
		if d.Err() == nil && (best == nil || count[d] < count[best]) {
			best = d
		}
	}
	return best
}

// Delete takes logs away: from now on they are found no more, their directories
// have names that no start opens, and Run removes them after a delay. Topics of
// the same names can be created at once.
func (s *Store) Delete(tps ...protocol.TopicPartition) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	var errs []error
	renamed := map[*Dir]bool{}
	for _, tp := range tps {
		l := s.take(tp)
		if l == nil {
			errs = append(errs, fmt.Errorf("delete log of %s: %w", tp, protocol.ErrUnknownTopicOrPartition))
			continue
		}
		if l.owner.Err() != nil {
			continue // it is out of reach, and set aside once it is not
		}
		path, err := l.retire(tp, deleteDirSuffix)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		renamed[l.owner] = true
		s.deleteLater(l.owner, path, l.Config())
	}
	for d := range renamed {
		errs = append(errs, d.syncNames())
	}
	s.signal()
	return errors.Join(errs...)
}

// take removes a log from those that are found.
func (s *Store) take(tp protocol.TopicPartition) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[tp]
	delete(s.logs, tp)
	return l
}

// SetAside renames a log that does not belong here, for the operator to look
// at. Nothing removes it.
func (s *Store) SetAside(tp protocol.TopicPartition) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	l := s.take(tp)
	if l == nil {
		return fmt.Errorf("set aside log of %s: %w", tp, protocol.ErrUnknownTopicOrPartition)
	}
	return s.setAside(l.owner, l, tp)
}

func (s *Store) setAside(d *Dir, l *Log, tp protocol.TopicPartition) error {
	path, err := l.retire(tp, strayDirSuffix)
	if err == nil {
		err = d.syncNames()
	}
	if err != nil {
		return s.dirFailed(d, err)
	}
	s.log.Warn().Str("topic", tp.Topic).Int32("partition", tp.Partition).Str("path", path).
		Msg("log does not belong here, set aside as stray")
	return nil
}

// retire closes a log and renames its directory. The caller syncs the one that
// it lies in.
func (l *Log) retire(tp protocol.TopicPartition, suffix string) (string, error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.abandon()
	path := filepath.Join(filepath.Dir(l.path), retiredDirName(tp, protocol.NewUUID(), suffix))
	if err := l.fs.Rename(l.path, path); err != nil {
		return "", l.fail(fmt.Errorf("rename %s to %s: %w", l.path, path, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = path
	return path, nil
}

// deleteLater notes a directory that has a -delete name, now or from an earlier
// process.
func (s *Store) deleteLater(d *Dir, path string, cfg LogConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.cfg.Now().Add(time.Duration(cfg.DeleteDelayMs) * time.Millisecond)
	s.deleted = append(s.deleted, deletion{d, path, at})
}

// closeParallel is how many logs of a directory are closed at a time. They wait
// for the disk, not for a processor, and a file system commits what is synced at
// the same time together.
const closeParallel = 16

// Close closes all logs in order and marks their directories clean for a
// broker of this epoch. highWatermarks are checkpointed. A directory where
// anything fails gets no mark, nor one that is out of service: its logs are checked
// at the next start.
func (s *Store) Close(epoch protocol.BrokerEpoch, highWatermarks iter.Seq2[protocol.TopicPartition, int64]) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	s.closed = true
	logs := slices.Collect(maps.Values(s.logs))
	s.mu.Unlock()
	offline := map[*Dir]bool{} // since before, which was said then
	for _, d := range s.dirs {
		offline[d] = d.Err() != nil
	}
	var failed sync.Map // *Dir → error
	_ = inParallel(closeParallel*len(s.dirs), logs, func(l *Log) error {
		if err := l.close(true); err != nil && !offline[l.owner] {
			failed.Store(l.owner, err)
		}
		return nil
	})
	sorted := byDir(s, highWatermarks)
	var errs []error
	for _, d := range s.dirs {
		if offline[d] {
			continue
		}
		if err, ok := failed.Load(d); ok {
			errs = append(errs, err.(error))
			continue
		}
		errs = append(errs, s.closeDir(d, epoch, sorted[d]))
	}
	return errors.Join(errs...)
}

// closeDir syncs the names of a directory's logs, which are closed, writes its
// checkpoints, and then the mark.
func (s *Store) closeDir(d *Dir, epoch protocol.BrokerEpoch, highWatermarks map[protocol.TopicPartition]int64) error {
	if err := d.Err(); err != nil {
		return err
	}
	if err := d.syncNames(); err != nil {
		return err
	}
	if err := s.checkpointRecoveryPoints(d); err != nil {
		return err
	}
	if err := s.checkpointLogStarts(d); err != nil {
		return err
	}
	if highWatermarks != nil {
		if err := d.saveHighWatermarks(highWatermarks); err != nil {
			return err
		}
	}
	return d.markClean(epoch)
}

// byDir sorts offsets of partitions by the directory that they are in.
func byDir(s *Store, offsets iter.Seq2[protocol.TopicPartition, int64]) map[*Dir]map[protocol.TopicPartition]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sorted := map[*Dir]map[protocol.TopicPartition]int64{}
	if offsets == nil {
		return sorted
	}
	for tp, offset := range offsets {
		l := s.logs[tp]
		if l == nil {
			continue
		}
		if sorted[l.owner] == nil {
			sorted[l.owner] = map[protocol.TopicPartition]int64{}
		}
		sorted[l.owner][tp] = offset
	}
	return sorted
}
