package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// At is the moment whose state is wanted; the newest there is for its zero value.
type At struct {
	// Offset is the last record that counts.
	Offset *int64
	// Time: batches that were written later do not count.
	Time time.Time
}

// ParseAt reads an offset, or a time as RFC 3339 has it.
func ParseAt(text string) (At, error) {
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return At{Offset: &offset}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return At{Time: t}, nil
	}
	return At{}, fmt.Errorf("%q is neither an offset nor a time such as 2006-01-02T15:04:05Z", text)
}

// lastOffset and lastMs are inclusive bounds.
func (at At) lastOffset() int64 {
	if at.Offset != nil {
		return *at.Offset
	}
	return math.MaxInt64
}

func (at At) lastMs() int64 {
	if !at.Time.IsZero() {
		return at.Time.UnixMilli()
	}
	return math.MaxInt64
}

// Load builds the image as the files of a metadata directory have it: from the
// newest checkpoint that is not later than what is wanted and the log behind it.
// Path is a directory as Dump takes it, a checkpoint, or the first segment.
//
// A Kafka node's log may hold records at its end that its quorum has not
// committed; ours never does.
func Load(path string, at At) (*metadata.Image, error) {
	return again(func() (*metadata.Image, error) { return load(path, at, nil) })
}

// again repeats a reading during which a running node removed a file: behind a
// newer snapshot there is another set of them.
func again[T any](read func() (T, error)) (T, error) {
	for range 4 {
		if v, err := read(); !errors.Is(err, fs.ErrNotExist) {
			return v, err
		}
	}
	return read()
}

// load is Load. For a history it begins as early as the files allow.
func load(path string, at At, past *history) (*metadata.Image, error) {
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	l := loader{at: at, image: metadata.Empty(), past: past}
	l.delta = metadata.NewDelta(l.image)
	var segments []string
	var checkpoints []snapshot.ID // the one to begin with last
	for _, file := range files {
		if id, ok := snapshot.ParseFileName(filepath.Base(file)); ok {
			checkpoints = append(checkpoints, id)
		} else {
			segments = append(segments, file)
		}
	}
	if past != nil && len(segments) > 0 {
		checkpoints = earliest(checkpoints, baseOf(segments[0]))
	}
	dir := filepath.Dir(files[0])
	for i := len(checkpoints) - 1; i >= 0 && l.next == 0; i-- {
		// The one named 0-0 is no state but what an empty log begins with.
		if id := checkpoints[i]; id.Offset > 0 || len(segments) == 0 {
			if err := l.checkpoint(dir, id); err != nil {
				return nil, err
			}
		}
	}
	if at != (At{}) && l.next == 0 && len(checkpoints) > 0 && len(segments) > 0 && baseOf(segments[0]) > 0 {
		return nil, fmt.Errorf("%s holds nothing that early: its log begins at offset %d, behind a snapshot", path, baseOf(segments[0]))
	}
	for i, file := range segments {
		if l.done || i+1 < len(segments) && baseOf(segments[i+1]) <= l.next {
			continue // all of it is in the checkpoint
		}
		if err := l.segment(file, i+1 == len(segments)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	l.publish()
	if l.image.Offset() < 0 && at != (At{}) {
		return nil, fmt.Errorf("%s holds nothing that early", path)
	}
	return l.image, nil
}

// earliest are the checkpoints from which a log that begins at base goes on, the
// first of them last; none where the log has its own beginning.
func earliest(checkpoints []snapshot.ID, base int64) []snapshot.ID {
	if base == 0 {
		return nil
	}
	checkpoints = slices.DeleteFunc(checkpoints, func(id snapshot.ID) bool { return id.Offset < base })
	slices.Reverse(checkpoints)
	return checkpoints
}

// baseOf is the offset in a segment's name; 0 where the name says nothing.
func baseOf(path string) int64 {
	base, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".log"), 10, 64)
	return base
}

// loader replays records as replay.Replayer does, without a log to append to.
type loader struct {
	at    At
	image *metadata.Image
	delta *metadata.Delta
	next  int64 // offset of the next record that counts
	done  bool  // what follows is too late
	// inTxn: a metadata transaction has begun and not ended.
	inTxn bool
	// last is where the last record in delta stands; −1 where there is none.
	last    int64
	epoch   protocol.ControllerEpoch
	timeMs  int64
	pending bool     // delta holds something
	past    *history // nil where only the end counts
}

// checkpoint takes a checkpoint, if it is not too late.
func (l *loader) checkpoint(dir string, id snapshot.ID) error {
	if id.Offset-1 > l.at.lastOffset() {
		return nil
	}
	delta := metadata.NewDelta(metadata.Empty())
	header, err := snapshot.Read(vfs.OS(), dir, id, delta.Replay)
	if err != nil {
		return err
	}
	if header.LastTimestampMs > l.at.lastMs() {
		return nil
	}
	l.delta, l.next = delta, id.Offset
	l.note(max(id.Offset-1, 0), id.Epoch, header.LastTimestampMs)
	l.publish()
	if l.past != nil {
		l.past.begin(l.image)
	}
	return nil
}

func (l *loader) note(offset int64, epoch protocol.ControllerEpoch, timeMs int64) {
	l.last, l.epoch, l.timeMs, l.pending = offset, epoch, timeMs, true
}

// publish makes what was replayed the image. An open transaction is as if it
// had not begun.
func (l *loader) publish() {
	if l.pending && !l.inTxn {
		l.image = l.delta.Apply(l.last, l.epoch, l.timeMs)
	}
	l.delta, l.pending = metadata.NewDelta(l.image), false
}

// segment replays what counts of a segment. The end of the last one may be in
// the making.
func (l *loader) segment(path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := record.NewScanner(bufio.NewReaderSize(f, 64<<10))
	for !l.done {
		b, err := s.Next()
		if err == io.EOF || errors.Is(err, batch.ErrIncomplete) && last {
			return nil
		}
		if err != nil {
			return fmt.Errorf("position %d: %w", s.Position(), err)
		}
		if b.NextOffset() <= l.next {
			continue
		}
		if b.BaseOffset() > l.next {
			return fmt.Errorf("position %d: it goes on at offset %d, and the records from %d on are missing: name a directory that has them or a checkpoint",
				s.Position(), b.BaseOffset(), l.next)
		}
		if b.MaxTimestamp() > l.at.lastMs() {
			l.done = true
			return nil
		}
		if err := l.batch(b); err != nil {
			return fmt.Errorf("position %d: %w", s.Position(), err)
		}
	}
	return nil
}

func (l *loader) batch(b batch.Batch) error {
	return record.Each(b, func(e record.Entry) error {
		if e.Offset < l.next || l.done {
			return nil
		}
		if e.Offset > l.at.lastOffset() {
			l.done = true
			return nil
		}
		if err := l.record(e, b); err != nil {
			return fmt.Errorf("offset %d: %w", e.Offset, err)
		}
		l.next = e.Offset + 1
		return nil
	})
}

func (l *loader) record(e record.Entry, b batch.Batch) error {
	switch e.Record.(type) {
	case nil: // a control record changes nothing but where the image stands
	case *record.BeginTransaction:
		l.publish()
		l.inTxn = true
	case *record.EndTransaction:
		l.inTxn = false
	case *record.AbortTransaction:
		l.delta, l.inTxn = metadata.NewDelta(l.image), false
	}
	if e.Record != nil {
		replay := func() error { return l.delta.Replay(e.Record) }
		if l.past != nil {
			replay = func() error { return l.past.replay(l.delta, e, protocol.ControllerEpoch(b.LeaderEpoch())) }
		}
		if err := replay(); err != nil {
			return err
		}
	}
	l.note(e.Offset, protocol.ControllerEpoch(b.LeaderEpoch()), b.MaxTimestamp())
	return nil
}
