package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// Recovery is what opening a log had to cut off.
type Recovery struct {
	// Cut: bytes were cut off.
	Cut bool
	// Path and Position are where the first batch stood that is none, Offset the
	// log end since.
	Path     string
	Position int64
	Offset   int64
	Reason   string
	// Torn: nothing whole followed, as after a crash in an append. Otherwise
	// records that were whole are cut off with those that were not.
	Torn bool
	// Synced: what was cut off had been synced, so that not a crash but the disk
	// has damaged it. Otherwise a power cut may have done it: a kernel writes
	// back in its own order.
	Synced bool
	// Kept are the files that hold what was cut off, where it was not just torn
	// by a crash.
	Kept []string
}

// recoverLocked reads segment i from end to end, checks every batch and makes
// the indexes on the heap. It returns the place of the first that is none.
func (l *Log) recoverLocked(i int) (*damage, error) {
	s := l.segments[i]
	file, err := l.openLocked(s)
	if err != nil {
		return nil, err
	}
	size, stale := s.size, s.sealed || s.stale
	*s = *newSegment(s.base, s.created)
	s.file, s.stale = file, stale
	limit := int64(math.MaxInt64)
	if i+1 < len(l.segments) {
		limit = l.segments[i+1].base
	}
	buf := scanBuffers.Get().(*[scanSize]byte)
	defer scanBuffers.Put(buf)
	walk := scanner{f: file, dir: l.path, base: s.base, end: size, checkCRC: true, buf: buf[:0]}
	for {
		at := walk.position
		b, err := walk.next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err == nil {
			err = s.fits(b, &walk, limit)
		}
		var bad *damage
		if errors.As(err, &bad) {
			return bad, nil
		}
		if err != nil {
			return nil, err
		}
		if at == 0 {
			s.firstTimestamp = b.MaxTimestamp()
		}
		s.note(b, at, l.cfg.IndexIntervalBytes)
		s.size, s.next = walk.position, b.NextOffset()
		l.epochs.see(protocol.LeaderEpoch(b.LeaderEpoch()), b.BaseOffset())
	}
}

// fits checks the offsets of a batch that walk has just returned.
func (s *segment) fits(b batch.Batch, walk *scanner, limit int64) error {
	first, last := b.BaseOffset(), b.LastOffset()
	switch at := walk.position - int64(b.Size()); {
	case first < s.next:
		return &damage{walk.path(), at, fmt.Sprintf("offset %d after %d", first, s.next-1)}
	case last-s.base > math.MaxInt32 || last >= limit || last < first:
		return &damage{walk.path(), at, fmt.Sprintf("offset %d is outside of the segment from %d to %d", last, s.base, limit-1)}
	}
	return nil
}

// cutDamageLocked cuts the log at the first batch of segment i that is none,
// and takes what follows out of it.
func (l *Log) cutDamageLocked(i int, bad *damage) error {
	s := l.segments[i]
	info, err := l.fs.Stat(bad.path)
	if err != nil {
		return err
	}
	r := Recovery{
		Cut: true, Path: bad.path, Position: bad.position, Offset: s.next, Reason: bad.reason,
		Torn: true, Synced: s.next < l.opts.RecoveryPoint,
	}
	for _, later := range l.segments[i+1:] {
		r.Torn = r.Torn && later.size == 0
	}
	if r.Torn {
		whole, err := l.wholeBatchFrom(s, bad.position, info.Size)
		if err != nil {
			return err
		}
		r.Torn = !whole
	}
	if !r.Torn || r.Synced {
		if err := l.keepAsideLocked(i, bad.position, info.Size, &r); err != nil {
			return err
		}
	}
	if err := l.removeFromLocked(i + 1); err != nil {
		return err
	}
	if err := removeIndexFiles(l.fs, l.path, s.base); err != nil {
		return err
	}
	s.stale = false
	if err := s.file.Truncate(bad.position); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.path); err != nil {
		return err
	}
	l.recovered = r
	event, text := l.log.Warn(), "log ended in a batch that is not whole, cut off"
	if !r.Torn || r.Synced {
		event, text = l.log.Error(), "log is damaged, cut off from there, what was cut off is kept aside"
	}
	event.Bool("synced", r.Synced).Str("path", r.Path).Int64("position", r.Position).Int64("offset", r.Offset).
		Int64("bytes", info.Size-r.Position).Str("reason", r.Reason).Strs("kept", r.Kept).Msg(text)
	return nil
}

// keepAsideLocked copies the bytes of segment i from a position on, and
// renames the later segments, so that somebody can look at them.
func (l *Log) keepAsideLocked(i int, position, size int64, r *Recovery) error {
	s := l.segments[i]
	path := fmt.Sprintf("%s.%d%s", l.file(s.base, logSuffix), position, keptAsideSuffix)
	f, err := l.fs.Create(path)
	if err != nil {
		return err
	}
	err = copyBytes(f, io.NewSectionReader(s.file, position, size-position), size-position)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	r.Kept = append(r.Kept, path)
	for _, later := range l.segments[i+1:] {
		later.close()
		from := l.file(later.base, logSuffix)
		if err := l.fs.Rename(from, from+keptAsideSuffix); err != nil {
			return err
		}
		r.Kept = append(r.Kept, from+keptAsideSuffix)
	}
	return nil
}

// wholeBatchFrom looks for a batch from the damage on that is whole by its CRC:
// then this is no torn end. Its offset says nothing, as the CRC does not cover
// it: where one batch's is damaged, that of each later one does not fit either.
func (l *Log) wholeBatchFrom(s *segment, from, size int64) (bool, error) {
	const magicAt = 16
	buf := make([]byte, scanSize)
	// Records may look like batches by chance or by malice. What looks like
	// batches for too long is kept aside rather than read for hours.
	budget := 16 * (size - from)
	for at := from; at+batch.HeaderSize <= size; {
		p := buf[:min(int64(len(buf)), size-at)]
		if n, err := s.file.ReadAt(p, at); n < len(p) {
			return false, fmt.Errorf("read %s at %d: %w", l.file(s.base, logSuffix), at, err)
		}
		// Every position in p but the last ones, which the next round has again.
		for i := 0; i+batch.HeaderSize <= len(p); i++ {
			next := bytes.IndexByte(p[i+magicAt:len(p)-batch.HeaderSize+magicAt+1], 2)
			if next < 0 {
				break
			}
			i += next
			b := batch.Batch(p[i : i+batch.HeaderSize])
			length := int64(b.Size())
			if length < batch.HeaderSize || at+int64(i)+length > size || b.LastOffsetDelta() < 0 {
				continue
			}
			if budget -= length; budget < 0 {
				return true, nil
			}
			all := make(batch.Batch, length)
			if n, err := s.file.ReadAt(all, at+int64(i)); n < len(all) {
				return false, err
			}
			if all.ComputeCRC() == all.CRC() {
				return true, nil
			}
		}
		at += int64(len(p)) - batch.HeaderSize + 1
	}
	return false, nil
}

// see notes the epoch of a batch that stands in the log.
func (c *epochCache) see(epoch protocol.LeaderEpoch, offset int64) {
	if epoch >= 0 && c.epochFor(offset) != epoch {
		c.assign(epoch, offset)
	}
}

// rebuildEpochsLocked takes the epochs from the batches of all segments.
func (l *Log) rebuildEpochsLocked(checked map[*segment]bool) error {
	if len(checked) == len(l.segments) {
		return nil // recovery has seen them all
	}
	l.epochs.entries = nil
	for _, s := range l.segments {
		if err := l.walkLocked(s, 0, func(b batch.Batch, _ *scanner) error {
			l.epochs.see(protocol.LeaderEpoch(b.LeaderEpoch()), b.BaseOffset())
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// walkLocked calls visit for the batches of a segment, from one at or before
// an offset on.
func (l *Log) walkLocked(s *segment, from int64, visit func(batch.Batch, *scanner) error) error {
	file, err := l.openLocked(s)
	if err != nil {
		return err
	}
	buf := scanBuffers.Get().(*[scanSize]byte)
	defer scanBuffers.Put(buf)
	walk := scanner{f: file, dir: l.path, base: s.base, end: s.size, buf: buf[:0]}
	if from > s.base {
		v, err := l.viewLocked(s, &s.offsets, indexSuffix)
		if err != nil {
			return err
		}
		e, ok, err := v.floor(byFirst, from-s.base)
		v.done()
		if err == nil && ok {
			_, err = walk.jump(e)
		}
		if err != nil {
			return err
		}
	}
	for {
		b, err := walk.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(b, &walk)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// loadSnapshotsLocked removes the snapshots of producers that nothing needs:
// those above the log end, and those at no segment's base but the newest.
func (l *Log) loadSnapshotsLocked() error {
	offsets, err := listSnapshots(l.fs, l.path)
	if err != nil {
		return err
	}
	if err := l.dropSnapshotsLocked(l.leo); err != nil {
		return err
	}
	offsets = slices.DeleteFunc(offsets, func(at int64) bool { return at > l.leo })
	for i, at := range offsets {
		j := l.segmentIndexLocked(at)
		if i == len(offsets)-1 || j >= 0 && l.segments[j].base == at {
			continue
		}
		if err := removeIfThere(l.fs, l.file(at, snapshotSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// listSnapshots returns the offsets of the producer snapshots, ascending.
func listSnapshots(fsys vfs.FS, path string) ([]int64, error) {
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, e := range entries {
		if at, ok := parseFileName(e.Name, snapshotSuffix); ok {
			offsets = append(offsets, at)
		}
	}
	return offsets, nil
}

// loadProducersLocked makes the state of the producers that before an offset.
func (l *Log) loadProducersLocked(offset int64) error {
	return l.replayProducersLocked(offset, offset, nil)
}

// replayProducersLocked makes the state of the producers that before end: from
// the newest snapshot that is not above from, and the batches behind it. For
// the segments in rebuilt the aborted transactions are noted too.
func (l *Log) replayProducersLocked(from, end int64, rebuilt map[*segment]bool) error {
	start, err := l.loadSnapshotLocked(from)
	if err != nil {
		return err
	}
	for i := max(l.segmentIndexLocked(start), 0); i < len(l.segments); i++ {
		s := l.segments[i]
		if l.endLocked(i) <= start || s.base >= end {
			continue
		}
		if err := l.walkLocked(s, start, func(b batch.Batch, walk *scanner) error {
			if b.BaseOffset() >= end {
				return io.EOF
			}
			if b.LastOffset() < start || !b.HasProducerID() {
				return nil
			}
			return l.replayLocked(b, walk, s, rebuilt[s])
		}); err != nil {
			return err
		}
	}
	return nil
}

// replayLocked adds a batch that stands in the log to the producers' state.
func (l *Log) replayLocked(b batch.Batch, walk *scanner, s *segment, rebuilt bool) error {
	if b.IsControl() {
		whole, err := walk.records(b)
		if err != nil {
			return err
		}
		b = whole
	}
	l.producers.begin()
	if err := l.producers.add(b, fromLog); err != nil {
		return err
	}
	if aborted := l.producers.commit(nil); rebuilt {
		s.aborted = append(s.aborted, aborted...)
	}
	return nil
}

// loadSnapshotLocked loads the newest snapshot that is whole and not above an
// offset, and returns where it stands; the log start where there is none.
// Damaged ones are removed: the log has what they said.
func (l *Log) loadSnapshotLocked(from int64) (int64, error) {
	l.producers, l.snapshotAt = newProducerState(), 0
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		if snap := l.snapshots[i]; snap.offset <= from {
			producers, err := parseSnapshot(snap.data)
			if err != nil {
				panic(fmt.Sprintf("storage: own snapshot %d of %s: %v", snap.offset, l.path, err))
			}
			l.takeProducers(producers, snap.offset)
			return snap.offset, nil
		}
	}
	offsets, err := listSnapshots(l.fs, l.path)
	if err != nil {
		return 0, err
	}
	for _, at := range slices.Backward(offsets) {
		if at > from {
			continue
		}
		path := filepath.Join(l.path, fileName(at, snapshotSuffix))
		data, err := vfs.ReadFile(l.fs, path)
		if err != nil {
			return 0, err
		}
		producers, err := parseSnapshot(data)
		if err == nil {
			l.takeProducers(producers, at)
			return at, nil
		}
		l.log.Warn().Err(err).Str("path", path).Msg("producer snapshot is damaged, taking an older one")
		if err := removeIfThere(l.fs, path); err != nil {
			return 0, err
		}
	}
	return l.logStart, nil
}

func (l *Log) takeProducers(producers []producer, at int64) {
	now := l.now().UnixMilli()
	for _, p := range producers {
		if !p.expired(now, l.cfg.ProducerIDExpirationMs) {
			l.producers.load(p)
		}
	}
	l.snapshotAt = at
}
