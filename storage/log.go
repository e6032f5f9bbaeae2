package storage

import (
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// Log is one replica's log: segments of record batches in Kafka's files, with
// their indexes, the history of leader epochs and the state of the producers.
// All methods may be called from several goroutines.
//
// Offsets: LogStartOffset ≤ FlushedTo is not promised (records may be deleted
// that were never synced), but both are ≤ LEO.
type Log struct {
	fs    vfs.FS
	opts  LogOptions
	now   func() time.Time
	log   zerolog.Logger
	owner *Dir
	// damageReported: a reader has met damage, and the operator has been told.
	damageReported atomic.Bool

	// syncing is held by whoever makes things durable or changes the set of
	// files outside of an append: flush, truncation, deletion, close. It is
	// taken before mu and held over fsync, which mu never is.
	syncing sync.Mutex
	// parentSynced: the directory's own name is durable. Guarded by syncing.
	parentSynced bool

	// mu guards everything below, and is held over the write of an append.
	mu       sync.Mutex
	path     string
	cfg      LogConfig
	topicID  protocol.UUID
	segments []*segment // by base offset; the last is the active one; never empty
	leo      int64
	logStart int64
	// oldest is the base offset of the first segment that a power cut now would
	// leave.
	oldest int64
	// flushedTo is the recovery point: everything below is synced, with its indexes.
	flushedTo int64
	epochs    epochCache
	producers *producerState
	// snapshots are producer states taken at a roll that are not on disk yet.
	snapshots []snapshot
	// snapshotAt is the offset of the newest snapshot, on disk or not; 0 for none.
	snapshotAt int64
	// dirDirty: names in the directory have changed since it was last synced.
	dirDirty bool
	// recovered is what opening the log had to cut off.
	recovered Recovery
	// cutting: a truncation is under way, which nobody may append into.
	cutting bool
	failed  error
	closed  bool
}

// snapshot is an encoded producer state before an offset.
type snapshot struct {
	offset int64
	data   []byte
}

// errClosed is the answer of a log that was closed or deleted: whoever asks
// has outlived the replica.
var errClosed = fmt.Errorf("log is closed: %w", protocol.ErrNotLeaderForPartition)

// Path returns the log's directory, which changes when it is deleted.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.path
}

// Dir returns the log directory that the log is in; nil where it stands alone.
func (l *Log) Dir() *Dir { return l.owner }

// TopicID returns the id in partition.metadata; zero where there is none.
func (l *Log) TopicID() protocol.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topicID
}

// unbegun tells whether this is what a creation leaves that was cut off: there is no
// topic id, and has never been a record.
func (l *Log) unbegun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.topicID == protocol.ZeroUUID && l.leo == 0
}

// AssignTopicID gives the log a topic id where it has none, as a crash right
// after its creation leaves it; protocol.ErrInconsistentTopicID where it has
// another.
func (l *Log) AssignTopicID(id protocol.UUID) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	known, err := l.topicID, l.usableLocked()
	l.mu.Unlock()
	switch {
	case err != nil || known == id:
		return err
	case known != protocol.ZeroUUID:
		return fmt.Errorf("%s has topic id %s, not %s: %w", l.path, known, id, protocol.ErrInconsistentTopicID)
	}
	path := filepath.Join(l.path, partitionMetaFile)
	if err := writeAtomic(l.fs, path, formatPartitionMetadata(id)); err != nil {
		return l.fail(fmt.Errorf("write %s: %w", path, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topicID, l.dirDirty = id, true
	return nil
}

// LEO returns the log end offset: the offset that the next record gets.
func (l *Log) LEO() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leo
}

// LogStartOffset returns the first offset that can be read.
func (l *Log) LogStartOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logStart
}

// FlushedTo returns the recovery point: everything below it is durable.
func (l *Log) FlushedTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushedTo
}

// LastStableOffset returns the high watermark, held back by the first
// transaction that is open, or whose marker is not below the high watermark.
func (l *Log) LastStableOffset(highWatermark int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, ok := l.producers.firstUnstable(highWatermark); ok {
		return min(max(first, l.logStart), highWatermark)
	}
	return highWatermark
}

// HasOpenTransaction tells whether a producer has written transactional
// records that no marker has ended.
func (l *Log) HasOpenTransaction(producerID int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.producers.byID[producerID]
	return p != nil && p.txnFirstOffset != noTxn
}

// Size returns the bytes of all segments, the indexes not counted.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sizeLocked()
}

func (l *Log) sizeLocked() int64 {
	var size int64
	for _, s := range l.segments {
		size += s.size
	}
	return size
}

// SegmentCount returns the number of segments.
func (l *Log) SegmentCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.segments)
}

// Config returns the present settings.
func (l *Log) Config() LogConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg
}

// SetConfig changes the settings from the next append on; a time to sync within
// counts for what was appended before too.
func (l *Log) SetConfig(cfg LogConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg = cfg
	l.flushWithinLocked()
}

// flushWithinLocked asks for a sync in time, if anything is to be synced by time.
func (l *Log) flushWithinLocked() {
	if l.cfg.FlushMs <= maxFlushMs && l.opts.FlushWithin != nil && l.leo > l.flushedTo {
		l.opts.FlushWithin(l, time.Duration(l.cfg.FlushMs)*time.Millisecond)
	}
}

// Err returns what has taken the log, or its log directory, out of service.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked()
}

// Recovery returns what opening the log had to cut off.
func (l *Log) Recovery() Recovery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recovered
}

// LatestEpoch returns the newest leader epoch that the log knows.
func (l *Log) LatestEpoch() (protocol.LeaderEpoch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.latest()
}

// EndOffsetFor returns the largest known epoch that is not above the one asked
// for, and its end offset (exclusive); −1, −1 where it is unknown (KIP-101).
func (l *Log) EndOffsetFor(epoch protocol.LeaderEpoch) (protocol.LeaderEpoch, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.endOffsetFor(epoch, l.leo)
}

// EpochFor returns the leader epoch in which the record at an offset was
// appended; −1 where it is unknown.
func (l *Log) EpochFor(offset int64) protocol.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.epochFor(offset)
}

// AssignEpoch notes that a leader epoch begins at an offset. A new leader
// calls it with its log end before it appends. It becomes durable with the
// flush of its first records: one without any ends where it began, and a start
// forgets it.
func (l *Log) AssignEpoch(epoch protocol.LeaderEpoch, start int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs.assign(epoch, start)
}

// ExpireProducers forgets the producers that have been silent for too long.
func (l *Log) ExpireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, p := range l.producers.byID {
		if p.expired(now.UnixMilli(), l.cfg.ProducerIDExpirationMs) {
			delete(l.producers.byID, id)
		}
	}
}

// usableLocked returns nil for a log that can work.
func (l *Log) usableLocked() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.closed:
		return errClosed
	case l.owner != nil:
		return l.owner.Err()
	}
	return nil
}

// fail takes the log out of service, and the log directory with it: after a
// failed write or sync nobody knows what the disk holds, and asking again may
// be answered with a lie. It returns what callers get from now on. It is called
// with or without mu.
func (l *Log) failLocked(err error) error {
	if l.failed != nil {
		return l.failed
	}
	l.failed = fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err)
	if l.owner != nil {
		l.owner.Fail(err)
	}
	l.log.Error().Err(err).Str("path", l.path).Msg("log has failed and is offline until a restart")
	return l.failed
}

func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failLocked(err)
}

// active returns the segment that is appended to. Under mu.
func (l *Log) activeLocked() *segment { return l.segments[len(l.segments)-1] }

// segmentIndexLocked returns the index of the segment that holds an offset, if
// any does: the last that starts at it or below; −1 if all start above.
func (l *Log) segmentIndexLocked(offset int64) int {
	return sort.Search(len(l.segments), func(i int) bool { return l.segments[i].base > offset }) - 1
}

// endLocked returns the offset behind the last one that segment i may hold.
func (l *Log) endLocked(i int) int64 {
	if i+1 < len(l.segments) {
		return l.segments[i+1].base
	}
	return l.leo
}

func (l *Log) file(base int64, suffix string) string {
	return filepath.Join(l.path, fileName(base, suffix))
}

// openLocked opens the log file of a segment if it is not open. Opening is the
// one call besides the append's write that is made under mu: a segment is
// opened once, and an append must find its file open.
func (l *Log) openLocked(s *segment) (*handle, error) {
	if s.file == nil {
		h, err := openShared(l.fs, l.file(s.base, logSuffix), true)
		if err != nil {
			return nil, l.failLocked(fmt.Errorf("open segment %d of %s: %w", s.base, l.path, err))
		}
		s.file = h
	}
	return s.file, nil
}

// viewLocked returns an index for a lookup outside of the lock; the caller
// calls done on it.
func (l *Log) viewLocked(s *segment, x *index, suffix string) (view, error) {
	v := view{entrySize: x.entrySize, entries: x.entries, heap: x.heap}
	if !x.onDisk {
		return v, nil
	}
	if x.file == nil {
		path := l.file(s.base, suffix)
		h, err := openShared(l.fs, path, false)
		if err != nil {
			return view{}, l.failLocked(fmt.Errorf("open index of segment %d of %s: %w", s.base, l.path, err))
		}
		if err := x.use(h); err != nil {
			l.log.Warn().Err(err).Str("path", path).Msg("index is damaged and not used, reads of the segment are slow")
		}
		v.entries = x.entries
	}
	x.file.retain()
	v.file = x.file
	return v, nil
}

func (v view) done() {
	if v.file != nil {
		v.file.release()
	}
}

// readFailed returns what a read fails with. Damage is the content's fault, and
// reported once, since a reader comes back for as long as it lives; all else is
// the disk's, and takes the log directory offline.
func (l *Log) readFailed(err error) error {
	if isDamage(err) {
		if l.damageReported.CompareAndSwap(false, true) {
			l.log.Error().Err(err).Str("path", l.path).Msg("log is damaged, whoever reads there is refused")
		}
		return err
	}
	if err == nil {
		return nil
	}
	return l.fail(err)
}
