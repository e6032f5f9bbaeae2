package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

var (
	crashTP      = protocol.TopicPartition{Topic: "crash", Partition: 0}
	crashTopicID = protocol.UUID{1, 2, 3}
)

// life is a process's work on a log directory, and what it may rely on.
type life struct {
	t  *testing.T
	fs *vfs.Mem

	dir   *Dir
	store *Store
	log   *Log

	// value[i] and epoch[i] are what offset i holds, or is being given.
	value []string
	epoch []int32
	// before is what it held until the truncation that is under way.
	before []string
	synced int64 // offsets below were reported as synced
	gone   int64 // offsets below were reported as deleted
	next   int   // makes values unique
	// sequence is the producer's next, sequenceAt[i] that of offset i.
	sequence   int32
	sequenceAt []int32
}

func storeConfig() StoreConfig {
	cfg := DefaultStoreConfig()
	cfg.LogConfig = func(string) LogConfig {
		cfg := smallConfig()
		cfg.SegmentBytes = 1500
		return cfg
	}
	cfg.Now = now
	return cfg
}

// start opens everything, as a node does.
func (w *life) start() error {
	_, err := w.fs.Stat("/data/" + metaPropertiesFile)
	if err != nil {
		err = Format(w.fs, "/data", MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{9}}, now())
		if err != nil {
			return err
		}
	}
	if w.dir, err = OpenDir(w.fs, "/data", now()); err != nil {
		return err
	}
	if w.store, err = OpenStore(context.Background(), w.fs, []*Dir{w.dir}, storeConfig(), zerolog.Nop()); err != nil {
		return err
	}
	if err := w.dir.Err(); err != nil {
		return err
	}
	w.log, err = w.store.Create(crashTP, crashTopicID, nil)
	return err
}

func (w *life) append(epoch int32) error {
	w.next++
	value := fmt.Sprintf("value %d of a test that cuts the power, long enough to fill segments", w.next)
	data := produced{value: value, timestamp: testNow.UnixMilli() + int64(w.next), producer: &batch.Producer{ID: 7, BaseSequence: w.sequence}}.build(w.t)
	w.value = append(w.value, value)
	w.epoch = append(w.epoch, epoch)
	w.sequenceAt = append(w.sequenceAt, w.sequence)
	w.sequence++
	_, err := w.log.AppendAsLeader(data, protocol.LeaderEpoch(epoch), AppendOptions{})
	return err
}

func (w *life) flush() error {
	leo := w.log.LEO()
	if err := w.log.Flush(leo); err != nil {
		return err
	}
	w.synced = max(w.synced, leo)
	return nil
}

func (w *life) truncate(to int64) error {
	w.before = w.value
	w.synced = min(w.synced, to)
	if err := w.log.TruncateTo(to); err != nil {
		return err
	}
	w.before = nil
	w.value, w.epoch = slices.Clone(w.value[:to]), slices.Clone(w.epoch[:to])
	w.sequence = w.sequenceAt[to]
	w.sequenceAt = slices.Clone(w.sequenceAt[:to])
	return nil
}

// deleteTo deletes records as a request does.
func (w *life) deleteTo(offset int64) error {
	if err := w.log.AdvanceLogStart(offset); err != nil {
		return err
	}
	if err := w.log.SaveLogStart(); err != nil {
		return err
	}
	w.gone = offset
	return nil
}

// work is appends, rolls, flushes, checkpoints, truncations, deletions and a
// clean restart. It ends with the first error.
func (w *life) work() error {
	appends := func(n int, epoch int32) func() error {
		return func() error {
			for range n {
				if err := w.append(epoch); err != nil {
					return err
				}
			}
			return nil
		}
	}
	checkpoints := func() error {
		if err := w.store.checkpointRecoveryPoints(w.dir); err != nil {
			return err
		}
		if err := w.store.checkpointLogStarts(w.dir); err != nil {
			return err
		}
		return w.dir.writeCheckpoint(highWatermarkFile, map[protocol.TopicPartition]int64{crashTP: w.log.LEO()})
	}
	other := protocol.TopicPartition{Topic: "other", Partition: 3}
	for _, step := range []func() error{
		w.start,
		appends(5, 1), w.flush, appends(20, 1), w.log0(func(l *Log) error { return l.flushClosed() }),
		checkpoints, appends(3, 2), w.flush, checkpoints,
		func() error { return w.truncate(26) }, // inside of the active segment
		appends(4, 3), checkpoints, appends(10, 3), w.flush, checkpoints,
		func() error { return w.truncate(12) }, // over segments
		appends(6, 4), checkpoints,
		w.log0(func(l *Log) error { l.AssignEpoch(5, l.LEO()); return nil }),
		w.log0((*Log).Roll), appends(3, 6), w.flush, w.log0((*Log).Roll), checkpoints, appends(2, 6),
		func() error { return w.deleteTo(7) },
		func() error { return w.deleteTo(10) }, // where the second segment begins
		w.log0(func(l *Log) error { _, err := l.DeleteSegmentsBelowStart(); return err }),
		checkpoints,
		func() error {
			if _, err := w.store.Create(other, protocol.UUID{5}, nil); err != nil {
				return err
			}
			return w.store.Delete(other)
		},
		func() error { w.store.removeDeleted(); return w.dir.Err() },
		func() error {
			leo := w.log.LEO()
			if err := w.store.Close(77, nil); err != nil {
				return err
			}
			w.synced = leo
			return w.dir.Close()
		},
		w.start, appends(8, 7), w.flush, checkpoints, appends(3, 7),
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *life) log0(do func(*Log) error) func() error {
	return func() error { return do(w.log) }
}

// TestPowerCutAtEveryChange cuts the power at every write, sync, rename,
// creation and removal in turn. Whatever the disk has kept (exactly what was
// synced, everything, or anything between), the log opens by itself, holds a
// first part of what was appended, with all that was synced, and goes on.
func TestPowerCutAtEveryChange(t *testing.T) {
	whole := &life{t: t, fs: vfs.NewMem()}
	check(t, whole.work())
	total := whole.fs.Ops()
	if total < 150 {
		t.Fatalf("only %d changes, the test means more", total)
	}
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for cut := 1; cut <= total+1; cut++ {
		w := &life{t: t, fs: vfs.NewMem()}
		w.fs.CutPowerAt(cut)
		err := w.work()
		if cut <= total && !errors.Is(err, vfs.ErrPowerCut) {
			t.Fatalf("cut %d of %d: the work ended with %v", cut, total, err)
		}
		w.verify(fmt.Sprintf("cut %d, killed", cut), w.fs.Kill(), int64(len(w.value)-1))
		w.verify(fmt.Sprintf("cut %d, synced only", cut), w.fs.Crash(nil), w.synced)
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, uint64(cut)))
			w.verify(fmt.Sprintf("cut %d, seed %d", cut, seed), w.fs.Crash(rng), w.synced)
		}
		if t.Failed() {
			return
		}
	}
}

// verify starts on what is left and checks it. least is the lowest log end that
// is allowed, unless a truncation was under way.
func (w *life) verify(when string, fs *vfs.Mem, least int64) {
	t := w.t
	t.Helper()
	if w.before != nil {
		least = min(least, w.synced)
	}
	n := &life{t: t, fs: fs, next: 1000}
	if err := n.start(); err != nil {
		t.Errorf("%s: start: %v", when, err)
		return
	}
	l := n.log
	start, leo := l.LogStartOffset(), l.LEO()
	if leo < least || leo > int64(len(w.value)) || start < w.gone || start > min(leo, 10) {
		t.Errorf("%s: log from %d to %d, want a start from %d on and an end between %d and %d", when, start, leo, w.gone, least, len(w.value))
		return
	}
	batches, err := readAll(l, start)
	if err != nil {
		t.Errorf("%s: read: %v", when, err)
		return
	}
	if got := int64(len(batches)); got != leo-start {
		t.Errorf("%s: %d batches between %d and %d", when, got, start, leo)
		return
	}
	for i, b := range batches {
		offset := start + int64(i)
		var value string
		check(t, b.Each(func(r batch.Record) error { value = string(r.Value); return nil }))
		if b.BaseOffset() != offset || value != w.value[offset] || b.LeaderEpoch() != w.epoch[offset] {
			t.Errorf("%s: offset %d holds %q of epoch %d at %d, want %q of epoch %d",
				when, offset, value, b.LeaderEpoch(), b.BaseOffset(), w.value[offset], w.epoch[offset])
			return
		}
		if epoch := l.EpochFor(offset); epoch != protocol.LeaderEpoch(w.epoch[offset]) {
			t.Errorf("%s: epoch of offset %d is %d, want %d; %v", when, offset, epoch, w.epoch[offset], l.epochs.entries)
			return
		}
		found, ok, err := l.OffsetForTimestamp(b.MaxTimestamp())
		if err != nil || !ok || found.Offset != offset {
			t.Errorf("%s: offset for the time of %d is %d, %t, %v", when, offset, found.Offset, ok, err)
			return
		}
	}
	n.verifyProducer(when, w, batches)
	n.value, n.epoch = slices.Clone(w.value[:leo]), slices.Clone(w.epoch[:leo])
	n.verifyGoesOn(when)
}

// verifyProducer sends the last batch again, and the next.
func (w *life) verifyProducer(when string, of *life, batches []batch.Batch) {
	w.sequenceAt = slices.Clone(of.sequenceAt[:w.log.LEO()])
	if len(batches) == 0 {
		w.sequence = 0
		return
	}
	last := batches[len(batches)-1]
	w.sequence = last.BaseSequence() + 1
	r, err := w.log.AppendAsLeader(slices.Clone(last), 8, AppendOptions{})
	if err != nil || !r.Duplicate || r.FirstOffset != last.BaseOffset() {
		w.t.Errorf("%s: the last batch, sent again, got offset %d, duplicate %t, %v; want %d, true",
			when, r.FirstOffset, r.Duplicate, err, last.BaseOffset())
	}
}

// verifyGoesOn appends, and restarts in order.
func (w *life) verifyGoesOn(when string) {
	for range 12 {
		if err := w.append(8); err != nil {
			w.t.Errorf("%s: append after the restart: %v", when, err)
			return
		}
	}
	start := w.log.LogStartOffset()
	if err := w.store.Close(78, maps.All(map[protocol.TopicPartition]int64{crashTP: 3})); err != nil {
		w.t.Errorf("%s: close: %v", when, err)
		return
	}
	check(w.t, w.dir.Close())
	ops := w.fs.Ops()
	if err := w.start(); err != nil {
		w.t.Errorf("%s: clean start: %v", when, err)
		return
	}
	if _, clean := w.dir.CleanShutdown(); !clean {
		w.t.Errorf("%s: no mark of the clean shutdown", when)
	}
	if changes := w.fs.Ops() - ops; changes > 5 { // the lock, the mark, a snapshot that nobody needs
		w.t.Errorf("%s: a clean start made %d changes", when, changes)
	}
	if got := values(w.t, w.log, start); !slices.Equal(got, w.value[start:]) {
		w.t.Errorf("%s: after the clean restart the log holds %d values from %d, want %d", when, len(got), start, len(w.value)-int(start))
	}
	if hw := w.store.HighWatermark(crashTP); hw != 3 {
		w.t.Errorf("%s: high watermark %d, want 3", when, hw)
	}
}
