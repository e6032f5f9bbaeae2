package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// OpenLog opens the log in a directory, which it makes where it is missing.
// Unless opts say that the log was closed in order, everything from the segment
// of the recovery point on is read and checked, its indexes are made anew, and
// it is cut at the first batch that is not whole (Log.Recovery tells). Indexes
// that are missing elsewhere are made too, and what was in the making when the
// last process ended is finished or removed.
func OpenLog(fsys vfs.FS, path string, opts LogOptions) (*Log, error) {
	l := &Log{
		fs: fsys, opts: opts, now: opts.Now, log: opts.Log, owner: opts.Dir,
		path: path, cfg: opts.Config, producers: newProducerState(),
		parentSynced: opts.Clean,
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.loadLocked()
	if err == nil {
		return l, nil
	}
	l.closed = true
	for _, s := range l.segments {
		s.close()
	}
	if isOperational(err) {
		// With the code, so that nobody takes it for a bug of ours.
		err = fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err)
	}
	return nil, fmt.Errorf("open log %s: %w", path, err)
}

// isOperational tells the disk's errors from those that have a code already,
// and from files that say what they must not.
func isOperational(err error) bool {
	var code protocol.Error
	var bad *FormatError
	return !errors.As(err, &code) && !errors.As(err, &bad)
}

func (l *Log) loadLocked() error {
	entries, err := l.fs.ReadDir(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.dirDirty, l.parentSynced = true, false
		entries, err = nil, l.fs.Mkdir(l.path)
	}
	if err != nil {
		return err
	}
	if err := l.loadTopicID(entries); err != nil {
		return err
	}
	if len(entries) == 0 {
		return l.loadEndsLocked() // new: there is nothing to find
	}
	if entries, err = finishLeftovers(l.fs, l.path, entries); err != nil {
		return err
	}
	epochsKnown, err := l.loadEpochs()
	if err != nil {
		return err
	}
	checked, err := l.loadSegmentsLocked(entries)
	if err != nil {
		return err
	}
	if !epochsKnown {
		if err := l.rebuildEpochsLocked(checked); err != nil {
			return err
		}
	}
	if err := l.loadEndsLocked(); err != nil {
		return err
	}
	from := l.leo
	for s := range checked {
		from = min(from, s.base)
	}
	if err := l.loadSnapshotsLocked(); err != nil {
		return err
	}
	if err := l.replayProducersLocked(from, l.leo, checked); err != nil {
		return err
	}
	// Files are opened when they are used: most logs of a large node are idle.
	for _, s := range l.segments {
		s.close()
	}
	return nil
}

// loadTopicID reads partition.metadata, or writes it where it is missing. A
// file that a crash has left half written says nothing; the log was young then,
// and its owner will say (AssignTopicID).
func (l *Log) loadTopicID(entries []vfs.Entry) error {
	path := filepath.Join(l.path, partitionMetaFile)
	if slices.ContainsFunc(entries, func(e vfs.Entry) bool { return e.Name == partitionMetaFile }) {
		data, err := vfs.ReadFile(l.fs, path)
		if err != nil {
			return err
		}
		id, err := parsePartitionMetadata(data)
		switch {
		case err != nil && (l.opts.Clean || l.opts.RecoveryPoint > 0):
			return &FormatError{Path: path, Err: err}
		case err != nil:
			l.log.Warn().Err(err).Str("path", path).Msg("topic id is unreadable after a crash, forgotten")
			if err := l.fs.Remove(path); err != nil {
				return err
			}
		case l.opts.TopicID != protocol.ZeroUUID && id != l.opts.TopicID:
			return fmt.Errorf("%s has topic id %s, not %s: %w", path, id, l.opts.TopicID, protocol.ErrInconsistentTopicID)
		default:
			l.topicID = id
			return nil
		}
	}
	if l.topicID = l.opts.TopicID; l.topicID == protocol.ZeroUUID {
		return nil
	}
	return writeFile(l.fs, path, formatPartitionMetadata(l.topicID))
}

// writeFile writes a file that the first flush will sync.
func writeFile(fsys vfs.FS, path string, data []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// loadEpochs reads leader-epoch-checkpoint. It reports false where there is
// none that can be read, and the epochs must come from the batches.
func (l *Log) loadEpochs() (bool, error) {
	path := filepath.Join(l.path, epochsFile)
	data, err := vfs.ReadFile(l.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.epochs.entries, err = parseEpochs(data); err != nil {
		l.log.Warn().Err(err).Str("path", path).Msg("leader epochs are unreadable, taken from the batches")
		l.epochs = epochCache{saved: unreadableEpochs}
		return false, nil
	}
	l.epochs.saved = l.epochs.entries
	return true, nil
}

// loadSegmentsLocked finds the segments and checks those that must be. It
// returns those whose indexes were made anew from checked batches.
func (l *Log) loadSegmentsLocked(entries []vfs.Entry) (map[*segment]bool, error) {
	sealed := map[int64]int{} // base → how many of the two indexes are there
	var bases []int64
	for _, e := range entries {
		if base, ok := parseFileName(e.Name, logSuffix); ok {
			bases = append(bases, base)
		}
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			if base, ok := parseFileName(e.Name, suffix); ok {
				sealed[base]++
			}
		}
	}
	slices.Sort(bases)
	for _, base := range slices.Sorted(maps.Keys(sealed)) {
		if _, ok := slices.BinarySearch(bases, base); !ok {
			if err := removeIndexFiles(l.fs, l.path, base); err != nil {
				return nil, err
			}
		}
	}
	for _, base := range bases {
		info, err := l.fs.Stat(l.file(base, logSuffix))
		if err != nil {
			return nil, err
		}
		s := newSegment(base, info.Modified)
		s.size = info.Size
		s.sealed, s.stale = sealed[base] == 2, sealed[base] == 1
		if s.size > math.MaxInt32 {
			return nil, &FormatError{l.file(base, logSuffix), fmt.Errorf("%d bytes are more than a segment can have", s.size)}
		}
		l.segments = append(l.segments, s)
	}
	return l.checkSegmentsLocked()
}

// checkSegmentsLocked recovers what an unclean stop may have damaged and makes
// missing indexes. Afterwards all segments but the last are sealed or have
// their indexes on the heap, and the last has them on the heap.
func (l *Log) checkSegmentsLocked() (map[*segment]bool, error) {
	checked := map[*segment]bool{}
	firstUnsynced := 0
	if l.opts.RecoveryPoint > 0 {
		firstUnsynced = max(l.segmentIndexLocked(l.opts.RecoveryPoint), 0)
	}
	for i := 0; i < len(l.segments); i++ {
		s := l.segments[i]
		active := i == len(l.segments)-1
		unsynced := !l.opts.Clean && i >= firstUnsynced
		if !unsynced && s.sealed {
			whole, err := l.believeLocked(s, active)
			if err != nil {
				return nil, err
			}
			if whole {
				continue
			}
		}
		suspect := unsynced && !s.sealed && !active
		bad, err := l.recoverLocked(i)
		if err != nil {
			return nil, err
		}
		checked[s] = true
		if suspect && bad == nil && s.next < l.segments[i+1].base {
			bad = &damage{l.file(s.base, logSuffix), s.size, fmt.Sprintf(
				"it ends at offset %d, but the next segment begins at %d", s.next, l.segments[i+1].base)}
		}
		if bad != nil {
			return checked, l.cutDamageLocked(i, bad)
		}
		if !active {
			s.noteTime()
		}
		if !unsynced && !active {
			// Its bytes were synced; only the indexes were missing.
			if err := l.sealNowLocked(s); err != nil {
				return nil, err
			}
			delete(checked, s)
		}
	}
	return checked, nil
}

// believeLocked takes a segment as its files say. It reports false where they
// cannot be true, and the segment must be read.
func (l *Log) believeLocked(s *segment, active bool) (bool, error) {
	if !active {
		s.sealedLocked()
		s.offsets.entries, s.times.entries = -1, -1 // counted at the first lookup
		return true, nil
	}
	s.offsets.onDisk, s.times.onDisk = true, true
	size := s.size
	err := l.loadIndexesLocked(s)
	if err == nil {
		err = l.readTailLocked(s)
	}
	var bad *FormatError
	if isDamage(err) || errors.As(err, &bad) {
		l.log.Warn().Err(err).Str("path", l.path).Msg("active segment is not as it was closed, checking all of it")
		s.size = size // whatever the attempt took for the end
		return false, nil
	}
	return err == nil, err
}

// readTailLocked takes a closed segment's last entries and what follows them in
// the log as the state of an active one.
func (l *Log) readTailLocked(s *segment) error {
	end := s.size
	s.rewind()
	return l.growLocked(s, end, math.MaxInt64)
}

// sealNowLocked writes the index files that were missing.
func (l *Log) sealNowLocked(s *segment) error {
	if err := writeIndexFiles(l.fs, l.path, s.base, s.offsets.heap, s.times.heap, s.aborted); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.path); err != nil {
		return err
	}
	s.sealedLocked()
	return nil
}

// reportMissing tells that the log lacks what had been synced although nothing in
// it is damaged: files are missing, or were cut between two batches. After a
// crash the recovery point may be that of an earlier log of the name.
func (l *Log) reportMissing() {
	event := l.log.Warn()
	if l.opts.Clean {
		event = l.log.Error()
	}
	event.Str("path", l.path).Int64("offset", l.leo).Int64("synced", l.opts.RecoveryPoint).
		Msg("log ends before what had been synced: records are missing")
}

// loadEndsLocked sets where the log begins and ends, and begins a segment
// where there is none.
func (l *Log) loadEndsLocked() error {
	start := l.opts.LogStartOffset
	if n := len(l.segments); n > 0 {
		l.leo = l.segments[n-1].next
		if l.leo < start {
			l.log.Warn().Str("path", l.path).Int64("offset", l.leo).Int64("log_start_offset", start).
				Msg("log ends before its start, beginning anew")
			if err := l.removeAllLocked(); err != nil {
				return err
			}
		}
	}
	if len(l.segments) == 0 {
		s, err := l.createLocked(start)
		if err != nil {
			return l.failLocked(err)
		}
		l.segments = []*segment{s}
		l.leo = start
	}
	l.oldest = l.segments[0].base
	l.logStart = max(start, l.oldest)
	if l.leo < l.opts.RecoveryPoint && !l.recovered.Cut {
		l.reportMissing()
	}
	l.flushedTo = l.leo
	if !l.opts.Clean {
		l.flushedTo = min(l.opts.RecoveryPoint, l.leo)
	}
	l.epochs.truncateFromEnd(l.leo)
	l.epochs.truncateFromStart(l.logStart)
	if l.opts.FlushSoon != nil && len(l.segments) > 1 && !l.segments[len(l.segments)-2].sealed {
		l.opts.FlushSoon(l)
	}
	return nil
}
