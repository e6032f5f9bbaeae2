package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// What is appended is read back, over segments, after a clean restart, and
// after a kill.
func TestAppendAndReadBack(t *testing.T) {
	fs := vfs.NewMem()
	l := openTest(t, fs, "/t-0", smallOptions())
	var want []string
	for i := range 300 {
		value := fmt.Sprintf("value %d", i)
		want = append(want, value)
		r := appendTest(t, l, record(t, value), 3)
		if r.FirstOffset != int64(i) || r.LastOffset != int64(i) {
			t.Fatalf("append %d got offsets %d to %d", i, r.FirstOffset, r.LastOffset)
		}
	}
	if l.SegmentCount() < 5 {
		t.Fatalf("%d segments, the test means more", l.SegmentCount())
	}
	compare := func(when string, l *Log) {
		t.Helper()
		if l.LEO() != 300 || l.LogStartOffset() != 0 {
			t.Fatalf("%s: log from %d to %d", when, l.LogStartOffset(), l.LEO())
		}
		for from := range int64(300) {
			if got := values(t, l, from); !slices.Equal(got, want[from:]) {
				t.Fatalf("%s: from %d: %d values, want %d", when, from, len(got), len(want[from:]))
			}
		}
	}
	compare("open", l)
	compare("after a kill", openTest(t, fs.Kill(), "/t-0", smallOptions()))
	check(t, l.Flush(l.LEO()))
	compare("flushed", l)
	compare("after a power cut", openTest(t, fs.Crash(nil), "/t-0", smallOptions()))
	check(t, l.Close())
	opts := smallOptions()
	opts.Clean, opts.RecoveryPoint = true, 300
	l = openTest(t, fs, "/t-0", opts)
	compare("after a clean stop", l)
	appendTest(t, l, record(t, "more"), 4)
	if got := values(t, l, 300); !slices.Equal(got, []string{"more"}) {
		t.Fatalf("appended after the restart: %q", got)
	}
}

// The leader patches offset and epoch into the bytes that are written.
func TestEpochIsPatched(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	appendTest(t, l, records(t, 3, 10), 5)
	appendTest(t, l, records(t, 2, 10), 7)
	got := all(t, l, 0)
	for i, want := range []struct {
		base  int64
		epoch int32
	}{{0, 5}, {3, 7}} {
		if got[i].BaseOffset() != want.base || got[i].LeaderEpoch() != want.epoch {
			t.Errorf("batch %d has offset %d and epoch %d, want %d and %d",
				i, got[i].BaseOffset(), got[i].LeaderEpoch(), want.base, want.epoch)
		}
	}
	if epoch, end := l.EndOffsetFor(5); epoch != 5 || end != 3 {
		t.Errorf("epoch 5 ends at %d in epoch %d, want 3", end, epoch)
	}
}

// Each entry of an offset index names the last offset of the batch that stands
// at its position, as Kafka's dump tool checks, and a lookup finds the entry at
// or below the offset, on the heap and in the file.
func TestIndexEntriesPointToTheirBatches(t *testing.T) {
	fs := vfs.NewMem()
	l := openTest(t, fs, "/t-0", smallOptions())
	for range 100 {
		appendTest(t, l, records(t, 2, 30), 0)
	}
	checkViews := func(when string) {
		t.Helper()
		l.mu.Lock()
		defer l.mu.Unlock()
		entries := 0
		for _, s := range l.segments {
			v, err := l.viewLocked(s, &s.offsets, indexSuffix)
			check(t, err)
			at := map[int64]batch.Batch{} // by position
			check(t, l.walkLocked(s, 0, func(b batch.Batch, walk *scanner) error {
				at[walk.position-int64(b.Size())] = slices.Clone(b)
				return nil
			}))
			lowest := int64(math.MaxInt64)
			for offset := s.base; offset < l.endOf(s); offset++ {
				e, ok, err := v.floor(byFirst, offset-s.base)
				check(t, err)
				if !ok {
					continue
				}
				entries++
				lowest = min(lowest, e.a)
				b, whole := at[e.b]
				if !whole || b.LastOffset()-s.base != e.a {
					t.Fatalf("%s: entry (%d, %d) of segment %d names no batch", when, e.a, e.b, s.base)
				}
				if e.a > offset-s.base {
					t.Fatalf("%s: lookup of %d in segment %d found %d, which is behind it", when, offset, s.base, s.base+e.a)
				}
				if next, ok, _ := v.floor(bySecond, math.MaxInt64); ok && next.a <= offset-s.base && next != e {
					t.Fatalf("%s: lookup of %d in segment %d found (%d, %d), not the last entry (%d, %d)",
						when, offset, s.base, e.a, e.b, next.a, next.b)
				}
			}
			v.done()
		}
		if entries == 0 {
			t.Fatalf("%s: no entries", when)
		}
	}
	checkViews("on the heap")
	check(t, l.Flush(l.LEO()))
	checkViews("in the files")
}

func (l *Log) endOf(s *segment) int64 {
	for i := range l.segments {
		if l.segments[i] == s {
			return l.endLocked(i)
		}
	}
	return 0
}

func TestReadBounds(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	size := int64(len(records(t, 2, 50)))
	for range 20 {
		appendTest(t, l, records(t, 2, 50), 0)
	}
	for _, test := range []struct {
		name     string
		offset   int64
		max      int
		limit    int64
		minOne   bool
		wantFrom int64
		want     int64 // batches
		err      error
	}{
		{"everything", 0, 1 << 20, math.MaxInt64, true, 0, 20, nil},
		{"from the middle of a batch", 5, 1 << 20, math.MaxInt64, true, 4, 18, nil},
		{"whole batches within the size", 0, int(3*size + size/2), math.MaxInt64, true, 0, 3, nil},
		{"exactly the size", 0, int(3 * size), math.MaxInt64, true, 0, 3, nil},
		{"first batch larger", 0, 1, math.MaxInt64, true, 0, 1, nil},
		{"first batch larger, not wanted", 0, 1, math.MaxInt64, false, 0, 0, nil},
		{"nothing asked", 0, 0, math.MaxInt64, false, 0, 0, nil},
		{"up to a limit", 0, 1 << 20, 8, true, 0, 4, nil},
		{"a limit inside of a batch leaves it out", 0, 1 << 20, 9, true, 0, 4, nil},
		{"limit at the offset", 8, 1 << 20, 8, true, 0, 0, nil},
		{"limit below the offset", 8, 1 << 20, 2, true, 0, 0, nil},
		{"limit and size", 0, int(2 * size), 8, true, 0, 2, nil},
		{"at the end", 40, 1 << 20, math.MaxInt64, true, 0, 0, nil},
		{"behind the end", 41, 1 << 20, math.MaxInt64, true, 0, 0, protocol.ErrOffsetOutOfRange},
		{"negative", -1, 1 << 20, math.MaxInt64, true, 0, 0, protocol.ErrOffsetOutOfRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 3 { // the second time there are hints
				s, err := l.Read(test.offset, test.max, test.limit, test.minOne)
				if !errors.Is(err, test.err) {
					t.Fatalf("error %v, want %v", err, test.err)
				}
				if err != nil {
					return
				}
				data, err := s.Bytes()
				check(t, err)
				if int64(len(data)) != test.want*size {
					t.Fatalf("%d bytes, want %d batches of %d", len(data), test.want, size)
				}
				if len(data) > 0 && batch.Batch(data).BaseOffset() != test.wantFrom {
					t.Fatalf("first batch at %d, want %d", batch.Batch(data).BaseOffset(), test.wantFrom)
				}
				s.Release()
			}
		})
	}
}

// A segment ends by size, by the records' time, by a full index, and where an
// offset would not fit its index; and never inside of an append.
func TestRolls(t *testing.T) {
	t.Run("size", func(t *testing.T) {
		l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
		one := records(t, 1, 1000)
		for range 4 {
			appendTest(t, l, records(t, 1, 1000), 0)
		}
		if size := int64(len(one)); l.SegmentCount() != int((4*size+4095)/4096) {
			t.Fatalf("%d segments for 4 × %d bytes", l.SegmentCount(), size)
		}
		if _, err := l.AppendAsLeader(records(t, 5, 1000), 0, AppendOptions{}); !errors.Is(err, protocol.ErrRecordListTooLarge) {
			t.Fatalf("append larger than a segment: %v", err)
		}
	})
	t.Run("time", func(t *testing.T) {
		opts := smallOptions()
		opts.Config.SegmentMs = 1000
		l := openTest(t, vfs.NewMem(), "/t-0", opts)
		at := testNow.UnixMilli()
		for i, test := range []struct{ timestamp, segments int64 }{
			{at, 1}, {at + 1000, 1}, {at + 1001, 2}, {at, 2}, {at + 2001, 2}, {at + 2002, 3},
		} {
			appendTest(t, l, produced{timestamp: test.timestamp, value: "x"}.build(t), 0)
			if got := int64(l.SegmentCount()); got != test.segments {
				t.Fatalf("append %d: %d segments, want %d", i, got, test.segments)
			}
		}
	})
	t.Run("index", func(t *testing.T) {
		opts := smallOptions()
		opts.Config.SegmentIndexBytes = 2 * timeEntrySize // room for one time entry, one kept back
		opts.Config.IndexIntervalBytes = 0
		l := openTest(t, vfs.NewMem(), "/t-0", opts)
		for i := range 6 {
			appendTest(t, l, produced{timestamp: int64(i + 1), value: "x"}.build(t), 0)
		}
		if l.SegmentCount() != 3 {
			t.Fatalf("%d segments, want 3 of 2 batches", l.SegmentCount())
		}
	})
	t.Run("offsets", func(t *testing.T) {
		l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
		for _, base := range []int64{5_000_000_000, 5_000_000_001, 5_000_000_000 + math.MaxInt32, 5_000_000_000 + math.MaxInt32 + 1} {
			b := batch.Batch(record(t, "x"))
			b.SetBaseOffset(base)
			if _, err := l.AppendAsFollower(b); err != nil {
				t.Fatal(err)
			}
		}
		// The empty segment 0 was replaced: nothing below 5,000,000,000 was written.
		if l.SegmentCount() != 2 || l.segments[0].base != 5_000_000_000 {
			t.Fatalf("%d segments from %d", l.SegmentCount(), l.segments[0].base)
		}
	})
	t.Run("a roll by hand", func(t *testing.T) {
		l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
		check(t, l.Roll())
		if l.SegmentCount() != 1 {
			t.Fatal("an empty segment was rolled")
		}
		appendTest(t, l, record(t, "x"), 0)
		check(t, l.Roll())
		if l.SegmentCount() != 2 {
			t.Fatal("no roll")
		}
	})
}

// A follower takes offsets and epochs as they are, and nothing that goes back.
func TestAppendAsFollower(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	set := func(base int64, epoch int32) batch.Batch {
		b := batch.Batch(records(t, 2, 10))
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(epoch)
		return b
	}
	two := append(set(0, 1), set(10, 4)...)
	r, err := l.AppendAsFollower(two)
	check(t, err)
	if r.FirstOffset != 0 || r.LastOffset != 11 || l.LEO() != 12 {
		t.Fatalf("offsets %d to %d, log end %d", r.FirstOffset, r.LastOffset, l.LEO())
	}
	if _, err := l.AppendAsFollower(set(11, 4)); err == nil {
		t.Fatal("an offset below the log end was appended")
	}
	if epoch, end := l.EndOffsetFor(3); epoch != 1 || end != 10 {
		t.Fatalf("epoch 3 ends at %d, %d", epoch, end)
	}
	got := all(t, l, 3) // in the gap
	if len(got) != 1 || got[0].BaseOffset() != 10 || got[0].LeaderEpoch() != 4 {
		t.Fatalf("read in the gap: %v", got)
	}
}
