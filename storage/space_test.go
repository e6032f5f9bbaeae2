package storage

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// volume is a store on a volume of its own, which runs.
type volume struct {
	t     *testing.T
	mem   *vfs.Mem
	store *Store
	said  strings.Builder
	stop  func()
}

const mib = 1 << 20

// newVolume must be called in a bubble of synctest.
func newVolume(t *testing.T, size int64, log LogConfig) *volume {
	v := &volume{t: t, mem: vfs.NewMem()}
	dirs := formatDirs(t, v.mem, "/data")
	v.mem.SetVolume(size)
	cfg := DefaultStoreConfig()
	cfg.LogConfig = func(string) LogConfig { return log }
	cfg.RetentionInterval = 24 * time.Hour
	store, err := OpenStore(t.Context(), v.mem, dirs, cfg, zerolog.New(&v.said))
	check(t, err)
	v.store = store
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- store.Run(ctx, v.highWatermarks) }()
	v.stop = func() { cancel(); check(t, <-done) }
	synctest.Wait()
	return v
}

func (v *volume) highWatermarks() iter.Seq2[protocol.TopicPartition, int64] {
	return func(yield func(protocol.TopicPartition, int64) bool) {
		for tp, l := range v.store.Logs() {
			if !yield(tp, l.LEO()) {
				return
			}
		}
	}
}

func (v *volume) create(topic string, partition int32) *Log {
	v.t.Helper()
	l, err := v.store.Create(tp(topic, partition), protocol.UUID{1}, nil)
	check(v.t, err)
	return l
}

// fill appends until an append is refused, and returns why.
func (v *volume) fill(l *Log) error {
	v.t.Helper()
	data := records(v.t, 1, 100_000)
	for range 1000 {
		if _, err := l.AppendAsLeader(data, 0, AppendOptions{}); err != nil {
			return err
		}
	}
	v.t.Fatal("nothing was refused")
	return nil
}

// TestB152TightVolume: with large segments and many partitions the disk filled
// before any segment closed. Segments whose topic has a retention roll early, and
// what need not be kept goes at once: nothing is refused, and what retention keeps
// is there.
func TestB152TightVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultLogConfig()
		cfg.SegmentBytes, cfg.RetentionBytes, cfg.RetentionMs = 1<<30, mib, -1
		v := newVolume(t, 50*mib, cfg)
		logs := make([]*Log, 10)
		for i := range logs {
			logs[i] = v.create("t", int32(i))
		}
		data := records(t, 1, 100_000)
		for range 200 {
			for i, l := range logs {
				if _, err := l.AppendAsLeader(data, 0, AppendOptions{}); err != nil {
					t.Fatalf("log %d at %d: %v", i, l.LEO(), err)
				}
			}
			synctest.Wait() // producers wait for their answers
		}
		for i, l := range logs {
			if size := l.Size(); size < mib || size > 4*mib || l.LEO() != 200 {
				t.Errorf("log %d has %d bytes up to %d, retention.bytes is %d", i, size, l.LEO(), mib)
			}
		}
		v.stop()
	})
}

// timed is a record of a time.
func timed(t *testing.T, ms int64) []byte {
	return produced{records: 1, timestamp: ms}.build(t)
}

// TestTightVolumeKeeps: what is kept for good is not cut into small segments, and
// a segment that is kept for a time rolls at half of it.
func TestTightVolumeKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultLogConfig()
		cfg.RetentionBytes, cfg.RetentionMs = -1, -1
		v := newVolume(t, 50*mib, cfg)
		forever, hours := v.create("forever", 0), v.create("hours", 0)
		cfg.RetentionMs = 3_600_000
		hours.SetConfig(cfg)
		data := records(t, 1, 100_000)
		for range 300 {
			appendTest(t, forever, data, 0)
		}
		appendTest(t, hours, timed(t, 1), 0)
		appendTest(t, hours, timed(t, 1_000_000), 0)
		if forever.SegmentCount() != 1 || hours.SegmentCount() != 1 {
			t.Errorf("%d and %d segments", forever.SegmentCount(), hours.SegmentCount())
		}
		appendTest(t, hours, timed(t, 2_000_000), 0)
		if hours.SegmentCount() != 2 {
			t.Error("no roll at half of retention.ms")
		}
		v.stop()
	})
}

// TestFullVolume: on a full volume appends are refused, and nothing else: the
// reserve is for coordinators and the metadata, the directory stays in service,
// deleted logs go at once, and then appends go on.
func TestFullVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultLogConfig()
		cfg.RetentionMs = -1
		v := newVolume(t, 100*mib, cfg)
		kept, gone := v.create("kept", 0), v.create("gone", 0)
		appendTest(t, kept, records(t, 1, 10), 0)
		err := v.fill(gone)
		if protocol.CodeOf(err) != protocol.ErrKafkaStorageError || !strings.Contains(err.Error(), "bytes left") {
			t.Fatalf("refused with %v", err)
		}
		if _, left, _ := v.mem.Space("/"); left < reserve(100*mib) {
			t.Errorf("%d bytes are left", left)
		}
		if v.store.dirs[0].Err() != nil || gone.Err() != nil {
			t.Errorf("directory %v, log %v", v.store.dirs[0].Err(), gone.Err())
		}
		if _, err := kept.AppendAsLeader(records(t, 1, 110_000), 0, AppendOptions{}); err == nil {
			t.Error("a client took from the reserve")
		}
		if _, err := kept.AppendAsLeader(records(t, 1, 110_000), 0, AppendOptions{Coordinator: true}); err != nil {
			t.Errorf("a coordinator's append: %v", err)
		}
		time.Sleep(2 * spaceInterval)
		synctest.Wait()
		check(t, v.store.Delete(tp("gone", 0)))
		synctest.Wait()
		if _, left, _ := v.mem.Space("/"); left < 90*mib {
			t.Errorf("%d bytes are left after the deletion", left)
		}
		appendTest(t, kept, records(t, 1, 10), 0)
		time.Sleep(2 * spaceInterval)
		synctest.Wait()
		for _, text := range []string{volumeFull, volumeFine} {
			if n := strings.Count(v.said.String(), text); n != 1 {
				t.Errorf("%q was said %d times:\n%s", text, n, v.said.String())
			}
		}
		v.stop()
	})
}

// TestFollowerOnFullVolume: a follower leaves half of the reserve, whatever its leader
// sends, and the metadata log may use it.
func TestFollowerOnFullVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, 100*mib, DefaultLogConfig())
		follower := v.create("t", 0)
		data := records(t, 1, 100_000)
		var err error
		for offset := int64(0); err == nil; offset++ {
			batch.Batch(data).SetBaseOffset(offset)
			_, err = follower.AppendAsFollower(data)
		}
		if !errors.Is(err, protocol.ErrKafkaStorageError) || v.store.dirs[0].Err() != nil {
			t.Fatalf("refused with %v, directory %v", err, v.store.dirs[0].Err())
		}
		if _, left, _ := v.mem.Space("/"); left < reserve(100*mib)/2 {
			t.Errorf("%d bytes are left", left)
		}
		metadata, err := OpenLog(v.mem, "/data/__cluster_metadata-0", LogOptions{
			Config: DefaultLogConfig(), TopicID: protocol.MetadataTopicID, Dir: v.store.dirs[0], Log: zerolog.Nop(),
		})
		check(t, err)
		batch.Batch(data).SetBaseOffset(0)
		if _, err := metadata.AppendAsFollower(data); err != nil {
			t.Errorf("the metadata log: %v", err)
		}
		v.stop()
	})
}

// TestNoSpaceForIndexes: indexes and checkpoints that find no space are written
// later, and nothing counts as synced meanwhile; a sync that fails is a failure.
func TestNoSpaceForIndexes(t *testing.T) {
	mem := vfs.NewMem()
	dirs := formatDirs(t, mem, "/data")
	cfg := DefaultStoreConfig()
	cfg.LogConfig = func(string) LogConfig { return smallConfig() }
	store := openStore(t, mem, dirs, cfg)
	l, err := store.Create(tp("t", 0), protocol.UUID{1}, nil)
	check(t, err)
	for range 6 {
		appendTest(t, l, records(t, 1, 1500), 3)
	}
	var full bool
	var failing string
	mem.SetHook(func(op vfs.Op) error {
		if full && op.Kind == "create" || op.Kind == failing && strings.HasSuffix(op.Path, logSuffix) {
			return syscall.ENOSPC
		}
		return nil
	})
	full = true
	for range 2 {
		if err := l.Flush(math.MaxInt64); !errors.Is(err, protocol.ErrKafkaStorageError) {
			t.Fatalf("flush: %v", err)
		}
		store.eachDir(store.checkpointRecoveryPoints)
		store.checkpointHighWatermarks(func(yield func(protocol.TopicPartition, int64) bool) { yield(tp("t", 0), 6) })
	}
	if dirs[0].Err() != nil || l.Err() != nil || l.FlushedTo() != 0 {
		t.Fatalf("directory %v, log %v, synced up to %d", dirs[0].Err(), l.Err(), l.FlushedTo())
	}
	full = false
	check(t, l.Flush(math.MaxInt64))
	store.eachDir(store.checkpointRecoveryPoints)
	crashed := mem.Kill()
	again := openStore(t, crashed, openDirs(t, crashed, "/data"), cfg)
	if l, _ := again.Get(tp("t", 0)); l.LEO() != 6 || l.FlushedTo() != 6 || l.Recovery().Cut || l.EpochFor(5) != 3 {
		t.Errorf("after a crash: end %d, synced up to %d, %+v", l.LEO(), l.FlushedTo(), l.Recovery())
	}
	appendTest(t, l, records(t, 1, 10), 3)
	failing = "sync"
	if err := l.Flush(math.MaxInt64); err == nil || dirs[0].Err() == nil {
		t.Errorf("a sync that fails: %v, directory %v", err, dirs[0].Err())
	}
}

// TestNoSpaceIsNoFailure: where somebody else takes the last byte, an append fails
// as a whole, and the log goes on when there is space.
func TestNoSpaceIsNoFailure(t *testing.T) {
	for _, what := range []string{"write", "create"} {
		t.Run(what, func(t *testing.T) {
			mem := vfs.NewMem()
			dirs := formatDirs(t, mem, "/data")
			cfg := DefaultStoreConfig()
			cfg.LogConfig = func(string) LogConfig { return smallConfig() }
			store := openStore(t, mem, dirs, cfg)
			l, err := store.Create(tp("t", 0), protocol.UUID{1}, nil)
			check(t, err)
			appendTest(t, l, records(t, 1, 1500), 0)
			appendTest(t, l, records(t, 1, 1500), 0)
			full := true
			mem.SetHook(func(op vfs.Op) error {
				if full && op.Kind == what {
					return syscall.ENOSPC
				}
				return nil
			})
			// Larger than what the segment has room for: it rolls.
			next := records(t, 1, 1500)
			for range 2 {
				_, err = l.AppendAsLeader(next, 0, AppendOptions{})
				if !errors.Is(err, protocol.ErrKafkaStorageError) || !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("error %v", err)
				}
			}
			full = false
			if dirs[0].Err() != nil || l.Err() != nil || l.LEO() != 2 {
				t.Fatalf("directory %v, log %v, end %d", dirs[0].Err(), l.Err(), l.LEO())
			}
			appendTest(t, l, next, 0)
			slice, err := l.Read(0, math.MaxInt32, 3, true)
			check(t, err)
			slice.Release()
			closeStore(t, store, 1)
			store = openStore(t, mem, openDirs(t, mem, "/data"), cfg)
			if l, _ := store.Get(tp("t", 0)); l.LEO() != 3 || l.Recovery().Cut {
				t.Errorf("after a restart: end %d, %+v", l.LEO(), l.Recovery())
			}
		})
	}
}
