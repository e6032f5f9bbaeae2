package storage

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage/vfs"
)

// TestRetention runs testdata/retention: which segments go, as a decision over
// descriptions of segments (expire) and on a log (retain).
func TestRetention(t *testing.T) {
	datadriven.Walk(t, "testdata/retention", func(t *testing.T, path string) {
		mem := vfs.NewMem()
		clock := testNow
		opts := scriptOptions()
		opts.Now = func() time.Time { return clock }
		l := openTest(t, mem, "/t-0", opts)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			keep := retention{Ms: -1, Bytes: -1, HighWatermark: math.MaxInt64}
			scan(t, d, "ms", &keep.Ms)
			scan(t, d, "bytes", &keep.Bytes)
			scan(t, d, "high-watermark", &keep.HighWatermark)
			var seconds int
			scan(t, d, "after", &seconds)
			clock = clock.Add(time.Duration(seconds) * time.Second)
			switch d.Cmd {
			case "expire":
				scan(t, d, "now", &keep.NowMs)
				return fmt.Sprintf("%d\n", expired(parseAged(t, d), keep))
			case "append-at":
				var age int64
				scan(t, d, "age", &age)
				p := produced{records: 1, size: 20, timestamp: clock.UnixMilli() - age*1000}
				return appended(l.AppendAsLeader(p.build(t), 0, AppendOptions{}))
			case "retain":
				cfg := l.Config()
				cfg.RetentionMs, cfg.RetentionBytes = keep.Ms, keep.Bytes
				cfg.SegmentMs = math.MaxInt64
				scan(t, d, "segment-ms", &cfg.SegmentMs)
				l.SetConfig(cfg)
				r, err := l.Retain(keep.HighWatermark)
				if err != nil {
					return err.Error() + "\n"
				}
				return fmt.Sprintf("%+v\n", r) + describe(t, l) + files(t, mem)
			}
			out := runScript(t, d, &mem, &l)
			l.now = opts.Now // a restart has another clock
			return out
		})
	})
}

// parseAged reads lines of: end size newest [active].
func parseAged(t *testing.T, d *datadriven.TestData) []agedSegment {
	var segments []agedSegment
	for line := range strings.Lines(d.Input) {
		var s agedSegment
		var active string
		n, err := fmt.Sscan(line, &s.End, &s.Size, &s.NewestMs, &active)
		if n < 3 {
			d.Fatalf(t, "%q: %v", line, err)
		}
		s.Active = active == "active"
		segments = append(segments, s)
	}
	return segments
}

func files(t *testing.T, mem *vfs.Mem) string {
	var logs []string
	for _, name := range fileNames(t, mem, "/t-0") {
		if strings.HasSuffix(name, logSuffix) {
			logs = append(logs, strings.TrimLeft(strings.TrimSuffix(name, logSuffix), "0")+logSuffix)
		}
	}
	return "files " + strings.Join(logs, " ") + "\n"
}

// The store makes its passes by its interval, up to the high watermark that it
// is told, and readers keep what they hold (known fault B150).
func TestStoreRetains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		check(t, Format(mem, "/data", MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{9}}, now()))
		dir, err := OpenDir(mem, "/data", now())
		check(t, err)
		cfg := DefaultStoreConfig()
		cfg.LogConfig = func(string) LogConfig {
			c := smallConfig()
			c.RetentionMs, c.RetentionBytes = -1, 8000
			return c
		}
		cfg.RetentionInterval = time.Second
		store, err := OpenStore(t.Context(), mem, []*Dir{dir}, cfg, zerolog.Nop())
		check(t, err)
		tp := protocol.TopicPartition{Topic: "t", Partition: 0}
		l, err := store.Create(tp, protocol.UUID{1}, nil)
		check(t, err)
		for range 40 {
			appendTest(t, l, records(t, 1, 1000), 0)
		}
		reader, err := l.Read(0, 1<<20, math.MaxInt64, true)
		check(t, err)
		defer reader.Release()

		var highWatermark atomic.Int64
		highWatermark.Store(7)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- store.Run(ctx, func() iter.Seq2[protocol.TopicPartition, int64] {
				return func(yield func(protocol.TopicPartition, int64) bool) { yield(tp, highWatermark.Load()) }
			})
		}()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if start := l.LogStartOffset(); start == 0 || start > 7 {
			t.Errorf("log starts at %d, the high watermark is 7", start)
		}
		highWatermark.Store(40)
		time.Sleep(time.Second)
		synctest.Wait()
		if size := l.Size(); size < 8000 || size > 8000+4096 {
			t.Errorf("%d bytes are left, retention.bytes is 8000 and a segment 4096", size)
		}
		if data, err := reader.Bytes(); err != nil || len(data) == 0 {
			t.Errorf("a reader of a segment that went got %d bytes, %v", len(data), err)
		}
		stop()
		check(t, <-done)
	})
}
