package storage

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// TestFlushMs: what was appended is synced when flush.ms has passed, not before,
// and a new setting counts for what is there. Without it nobody syncs by time.
func TestFlushMs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		store := openStore(t, mem, formatDirs(t, mem, "/data"), DefaultStoreConfig())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- store.Run(ctx, nil) }()
		logs := make([]*Log, 3)
		for i := range logs {
			l, err := store.Create(tp("t", int32(i)), protocol.UUID{1}, nil)
			check(t, err)
			logs[i] = l
		}
		set := func(i int, ms int64) {
			cfg := logs[i].Config()
			cfg.FlushMs = ms
			logs[i].SetConfig(cfg)
		}
		// flushed checks up to where the logs are synced, ms after the last call.
		flushed := func(ms time.Duration, want ...int64) {
			t.Helper()
			time.Sleep(ms * time.Millisecond)
			synctest.Wait()
			for i, want := range want {
				if got := logs[i].FlushedTo(); got != want {
					t.Errorf("log %d is synced up to %d, want %d", i, got, want)
				}
			}
		}
		set(1, 1000)
		set(2, 300)
		for _, l := range logs {
			appendTest(t, l, records(t, 1, 10), 0)
		}
		flushed(299, 0, 0, 0)
		appendTest(t, logs[2], records(t, 1, 10), 0)
		flushed(1, 0, 0, 2)
		flushed(699, 0, 0, 2)
		flushed(1, 0, 1, 2)

		set(0, 100)
		flushed(100, 1, 1, 2)
		appendTest(t, logs[0], records(t, 1, 10), 0)
		flushed(50, 1, 1, 2)
		set(0, 0)
		flushed(0, 2, 1, 2)

		set(0, math.MaxInt64)
		appendTest(t, logs[0], records(t, 1, 10), 0)
		flushed(1_000_000, 2, 1, 2)
		stop()
		check(t, <-done)
	})
}
