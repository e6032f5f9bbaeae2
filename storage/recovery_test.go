package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// tenValues is a log of ten batches in one segment, killed.
func tenValues(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", smallOptions())
	for i := range 10 {
		appendTest(t, l, record(t, fmt.Sprintf("value %d", i)), 1)
	}
	return mem.Kill()
}

// change rewrites a file.
func change(t testing.TB, fs vfs.FS, path string, do func([]byte) []byte) {
	t.Helper()
	data := do(readFile(t, fs, path))
	f, err := fs.Create(path)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt(data, 0)
	check(t, err)
}

const firstLog = "/t-0/00000000000000000000.log"

// Recovery looks at the CRC of every batch: a flipped bit in a record ends the
// log there, and what was whole behind it is kept aside.
func TestRecoveryChecksEveryCRC(t *testing.T) {
	size := len(record(t, "value 0"))
	for damaged := range 10 {
		mem := tenValues(t)
		change(t, mem, firstLog, func(p []byte) []byte {
			p[damaged*size+size-3] ^= 1
			return p
		})
		l := openTest(t, mem, "/t-0", smallOptions())
		if l.LEO() != int64(damaged) || l.Size() != int64(damaged*size) {
			t.Fatalf("damage in batch %d: log ends at %d with %d bytes", damaged, l.LEO(), l.Size())
		}
		r := l.Recovery()
		if !r.Cut || r.Path != firstLog || r.Position != int64(damaged*size) || r.Offset != int64(damaged) ||
			r.Torn != (damaged == 9) || r.Synced || !strings.Contains(r.Reason, "CRC") {
			t.Fatalf("damage in batch %d: reported as %+v", damaged, r)
		}
		if r.Torn {
			continue
		}
		kept := readFile(t, mem, r.Kept[0])
		if len(r.Kept) != 1 || len(kept) != (10-damaged)*size {
			t.Fatalf("damage in batch %d: %d bytes kept in %q", damaged, len(kept), r.Kept)
		}
	}
}

// No CRC covers a batch's offset. One that is damaged upwards is believed, and
// then the batches behind it do not fit; one that is damaged so far that no
// segment holds it does not fit itself. What is cut off is whole: it is kept.
func TestRecoveryKeepsWhatAnOffsetHides(t *testing.T) {
	size := len(record(t, "value 0"))
	for _, c := range []struct {
		name      string
		at        int // byte of the batch's offset, of 8
		bit       byte
		damaged   int
		end, kept int
	}{
		{"believed", 6, 1, 4, 261, 5},
		{"impossible", 1, 1, 4, 4, 6},
		{"impossible, last", 1, 1, 9, 9, 1},
		{"backwards", 7, 4, 5, 5, 5},
	} {
		mem := tenValues(t)
		change(t, mem, firstLog, func(p []byte) []byte {
			p[c.damaged*size+c.at] ^= c.bit
			return p
		})
		l := openTest(t, mem, "/t-0", smallOptions())
		r := l.Recovery()
		if l.LEO() != int64(c.end) || !r.Cut || r.Torn || len(r.Kept) != 1 {
			t.Fatalf("%s: log ends at %d, reported as %+v", c.name, l.LEO(), r)
		}
		if kept := readFile(t, mem, r.Kept[0]); len(kept) != c.kept*size {
			t.Fatalf("%s: %d bytes kept, want %d batches of %d", c.name, len(kept), c.kept, size)
		}
	}
}

// tenClosed is tenValues after a clean stop, opened with a batch's magic damaged.
// Bytes behind the last index entry are looked at by a clean start.
func tenClosed(t *testing.T, damaged int, interval int32, log *strings.Builder) (*vfs.Mem, *Log) {
	t.Helper()
	mem := tenValues(t)
	opts := smallOptions()
	opts.Config.IndexIntervalBytes = interval
	check(t, openTest(t, mem, "/t-0", opts).Close())
	change(t, mem, firstLog, func(p []byte) []byte {
		p[damaged*len(record(t, "value 0"))+16] ^= 1
		return p
	})
	opts.Clean, opts.RecoveryPoint, opts.Log = true, 10, zerolog.New(log)
	return mem, openTest(t, mem, "/t-0", opts)
}

// A clean start looks at the end of the active segment. What it finds damaged
// there it cuts off as every start does: all that follows is kept aside, the
// file ends where the log does, and somebody is told.
func TestCleanStartCutsDamage(t *testing.T) {
	size := len(record(t, "value 0"))
	for _, damaged := range []int{0, 4, 9} {
		var text strings.Builder
		mem, l := tenClosed(t, damaged, 1<<20, &text)
		r := l.Recovery()
		if l.LEO() != int64(damaged) || !r.Cut || !r.Synced || len(r.Kept) != 1 || !strings.Contains(text.String(), `"level":"error"`) {
			t.Fatalf("damage in batch %d: log ends at %d, reported as %+v, logged %s", damaged, l.LEO(), r, text.String())
		}
		if kept := readFile(t, mem, r.Kept[0]); len(kept) != (10-damaged)*size {
			t.Errorf("damage in batch %d: %d bytes kept", damaged, len(kept))
		}
		if left := readFile(t, mem, firstLog); len(left) != damaged*size {
			t.Errorf("damage in batch %d: the file has %d bytes, the log %d", damaged, len(left), damaged*size)
		}
	}
}

// A reader that meets damage is refused, each time; the operator is told once.
func TestReadersOfDamage(t *testing.T) {
	var text strings.Builder
	_, l := tenClosed(t, 1, 200, &text)
	for range 3 {
		if _, err := l.Read(1, 1000, 10, true); !errors.Is(err, protocol.ErrCorruptMessage) {
			t.Errorf("read: %v", err)
		}
	}
	if got := text.String(); strings.Count(got, "log is damaged") != 1 || !strings.Contains(got, firstLog+": byte") {
		t.Errorf("logged: %s", got)
	}
}

// A segment file that has gone leaves nothing to find fault with; what is known to
// have been synced tells of it.
func TestMissingSegmentIsReported(t *testing.T) {
	for _, c := range []struct {
		clean, cut bool
		want       string
	}{
		{true, true, "error"},
		{false, true, "warn"},
		{true, false, ""},
	} {
		mem := vfs.NewMem()
		l := openTest(t, mem, "/t-0", smallOptions())
		appendTest(t, l, records(t, 10, 10), 1)
		check(t, l.Close())
		if c.cut {
			check(t, mem.Remove(firstLog))
		}
		var text strings.Builder
		opts := smallOptions()
		opts.Clean, opts.RecoveryPoint, opts.Log = c.clean, 10, zerolog.New(&text)
		openTest(t, mem, "/t-0", opts)
		got := text.String()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || c.want != "" && !strings.Contains(got, `"synced":10`) {
			t.Errorf("clean %v, cut %v: %s", c.clean, c.cut, got)
		}
	}
}

// A torn end below the recovery point is the disk's doing: it is kept aside.
func TestRecoveryKeepsWhatWasSynced(t *testing.T) {
	mem := tenValues(t)
	change(t, mem, firstLog, func(p []byte) []byte { return p[:len(p)-1] })
	opts := smallOptions()
	opts.RecoveryPoint = 10
	r := openTest(t, mem, "/t-0", opts).Recovery()
	if !r.Torn || !r.Synced || len(r.Kept) != 1 {
		t.Fatalf("reported as %+v", r)
	}
}

// A batch that is larger than the scanner's buffer is checked in pieces.
func TestRecoveryChecksLargeBatches(t *testing.T) {
	opts := smallOptions()
	opts.Config.SegmentBytes = 1 << 30
	for _, flip := range []int{-1, 70, scanSize - 1, scanSize, 2*scanSize + 5, 3*scanSize - 7} {
		mem := vfs.NewMem()
		l := openTest(t, mem, "/t-0", opts)
		appendTest(t, l, record(t, "small"), 1)
		before := int(l.Size())
		appendTest(t, l, records(t, 3, scanSize), 1)
		appendTest(t, l, record(t, "small"), 1)
		mem = mem.Kill()
		want := int64(5)
		if flip >= 0 {
			want = 1
			change(t, mem, firstLog, func(p []byte) []byte { p[before+flip] ^= 1; return p })
		}
		if got := openTest(t, mem, "/t-0", opts).LEO(); got != want {
			t.Fatalf("byte %d flipped: log ends at %d, want %d", flip, got, want)
		}
	}
}

// Whatever the last append left, the log ends with the last whole batch and
// goes on there.
func TestRecoveryCutsTornTail(t *testing.T) {
	size := len(record(t, "value 0"))
	for cut := range size - 1 { // a zero behind it would make the last one whole
		for _, tail := range []string{"", "\x00\x00\x00", strings.Repeat("\x00", 200), strings.Repeat("\x02", 100)} {
			mem := tenValues(t)
			change(t, mem, firstLog, func(p []byte) []byte { return append(p[:9*size+cut], tail...) })
			opts := smallOptions()
			opts.RecoveryPoint = 1000 // beyond the end: nothing to believe
			l := openTest(t, mem, "/t-0", opts)
			if l.LEO() != 9 || l.FlushedTo() != 9 {
				t.Fatalf("cut %d: log ends at %d, synced to %d", cut, l.LEO(), l.FlushedTo())
			}
			if r := l.Recovery(); (cut > 0 || tail != "") && (!r.Cut || !r.Torn) {
				t.Fatalf("cut %d, tail %q: reported as %+v", cut, tail, r)
			}
			appendTest(t, l, record(t, "new"), 2)
			if got := values(t, l, 8); !slices.Equal(got, []string{"value 8", "new"}) {
				t.Fatalf("cut %d: log goes on with %q", cut, got)
			}
		}
	}
}

// Damage in a segment before the last takes the later ones out of the log,
// and says so where they had been synced.
func TestRecoveryKeepsLaterSegmentsAside(t *testing.T) {
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", smallOptions())
	for range 100 {
		appendTest(t, l, records(t, 1, 100), 1)
	}
	check(t, l.Flush(l.LEO()))
	second := l.segments[1].base
	third := l.segments[2].base
	mem = mem.Kill()
	path := "/t-0/" + fileName(second, logSuffix)
	change(t, mem, path, func(p []byte) []byte { p[len(p)/2] ^= 1; return p })
	opts := smallOptions()
	opts.RecoveryPoint = 100
	l = openTest(t, mem, "/t-0", opts)
	if l.LEO() != 100 || l.Recovery().Cut {
		t.Fatal("a segment that was synced was read again")
	}
	opts.RecoveryPoint = second + 1
	mem = mem.Kill()
	l = openTest(t, mem, "/t-0", opts)
	r := l.Recovery()
	if l.LEO() <= second || l.LEO() >= third || r.Torn || r.Synced != (r.Offset < opts.RecoveryPoint) || r.Path != path {
		t.Fatalf("log ends at %d, segments at %d and %d: %+v", l.LEO(), second, third, r)
	}
	if names := fileNames(t, mem, "/t-0"); !slices.Contains(names, fileName(third, logSuffix+keptAsideSuffix)) ||
		slices.Contains(names, fileName(third, indexSuffix)) {
		t.Fatalf("files are %q", names)
	}
	appendTest(t, l, record(t, "new"), 2)
	check(t, l.Close())
}

// A gap between two segments whose first was never synced is the end of the
// log: a power cut has taken what was there.
func TestRecoveryFindsHoleBetweenSegments(t *testing.T) {
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", smallOptions())
	for range 60 {
		appendTest(t, l, records(t, 1, 100), 1)
	}
	second := l.segments[1].base
	mem = mem.Kill()
	size := len(records(t, 1, 100))
	change(t, mem, firstLog, func(p []byte) []byte { return p[:len(p)-2*size] })
	l = openTest(t, mem, "/t-0", smallOptions())
	if want := second - 2; l.LEO() != want || l.SegmentCount() != 1 || l.Recovery().Torn {
		t.Fatalf("log ends at %d with %d segments, want %d: %+v", l.LEO(), l.SegmentCount(), want, l.Recovery())
	}
}

// Files that are missing or damaged though the stop was clean are made anew.
func TestCleanStartRepairsDerivedFiles(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, mem *vfs.Mem)
	}{
		{"nothing", func(*testing.T, *vfs.Mem) {}},
		{"active index missing", func(t *testing.T, mem *vfs.Mem) {
			names := fileNames(t, mem, "/t-0")
			check(t, mem.Remove("/t-0/"+lastWith(names, indexSuffix)))
		}},
		{"first index missing", func(t *testing.T, mem *vfs.Mem) {
			check(t, mem.Remove("/t-0/00000000000000000000.index"))
		}},
		{"first time index missing", func(t *testing.T, mem *vfs.Mem) {
			check(t, mem.Remove("/t-0/00000000000000000000.timeindex"))
		}},
		{"first index torn", func(t *testing.T, mem *vfs.Mem) {
			change(t, mem, "/t-0/00000000000000000000.index", func(p []byte) []byte { return p[:len(p)-3] })
		}},
		{"first index scrambled", func(t *testing.T, mem *vfs.Mem) {
			change(t, mem, "/t-0/00000000000000000000.index", func(p []byte) []byte {
				for i := 7; i < len(p); i += 8 {
					p[i] ^= 3
				}
				return p
			})
		}},
		{"active index is Kafka's, not trimmed", func(t *testing.T, mem *vfs.Mem) {
			change(t, mem, "/t-0/"+lastWith(fileNames(t, mem, "/t-0"), indexSuffix), func(p []byte) []byte {
				return append(p, make([]byte, 800)...)
			})
		}},
		{"epochs torn", func(t *testing.T, mem *vfs.Mem) {
			change(t, mem, "/t-0/"+epochsFile, func(p []byte) []byte { return p[:len(p)-2] })
		}},
		{"epochs missing", func(t *testing.T, mem *vfs.Mem) { check(t, mem.Remove("/t-0/"+epochsFile)) }},
		{"newest snapshot zeroed", func(t *testing.T, mem *vfs.Mem) {
			change(t, mem, "/t-0/"+lastWith(fileNames(t, mem, "/t-0"), snapshotSuffix), func(p []byte) []byte { clear(p); return p })
		}},
		{"all snapshots missing", func(t *testing.T, mem *vfs.Mem) {
			for _, name := range fileNames(t, mem, "/t-0") {
				if strings.HasSuffix(name, snapshotSuffix) {
					check(t, mem.Remove("/t-0/"+name))
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem := vfs.NewMem()
			l := openTest(t, mem, "/t-0", smallOptions())
			for i := range 80 {
				data := produced{
					value: fmt.Sprintf("%080d", i), producer: &batch.Producer{ID: 5, BaseSequence: int32(i)},
					timestamp: testNow.UnixMilli() + int64(i),
				}.build(t)
				appendTest(t, l, data, protocol.LeaderEpoch(i/30))
			}
			check(t, l.Close())
			test.spoil(t, mem)
			opts := smallOptions()
			opts.Clean, opts.RecoveryPoint = true, 80
			l = openTest(t, mem, "/t-0", opts)
			if l.LEO() != 80 || l.Recovery().Cut {
				t.Fatalf("log ends at %d: %+v", l.LEO(), l.Recovery())
			}
			for i := range int64(80) {
				if got := values(t, l, i); len(got) != int(80-i) || got[0] != fmt.Sprintf("%080d", i) {
					t.Fatalf("from %d: %d values", i, len(got))
				}
				if found, ok, err := l.OffsetForTimestamp(testNow.UnixMilli() + i); err != nil || !ok || found.Offset != i {
					t.Fatalf("time of %d is at %d, %t, %v", i, found.Offset, ok, err)
				}
				if got := l.EpochFor(i); got != protocol.LeaderEpoch(i/30) {
					t.Fatalf("epoch of %d is %d", i, got)
				}
			}
			r := appendTest(t, l, produced{value: fmt.Sprintf("%080d", 79), producer: &batch.Producer{ID: 5, BaseSequence: 79}}.build(t), 3)
			if !r.Duplicate || r.FirstOffset != 79 {
				t.Fatalf("the last batch, sent again: %+v", r)
			}
		})
	}
}

func lastWith(names []string, suffix string) string {
	last := ""
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			last = name
		}
	}
	return last
}

// Only segments from the recovery point on are read at an unclean start.
func TestUncleanStartReadsUnsyncedSegmentsOnly(t *testing.T) {
	mem := vfs.NewMem()
	l := openTest(t, mem, "/t-0", smallOptions())
	for range 100 {
		appendTest(t, l, records(t, 1, 100), 1)
	}
	check(t, l.Flush(l.LEO()))
	active := l.activeLocked().base
	check(t, l.Flush(l.LEO()))
	mem = mem.Kill()
	opts := smallOptions()
	opts.RecoveryPoint = l.FlushedTo()
	l = openTest(t, mem, "/t-0", opts)
	for _, s := range l.segments {
		if s.sealed != (s.base < active) {
			t.Errorf("segment %d: believed %t, the active one was %d", s.base, s.sealed, active)
		}
	}
}

// An empty active segment, as a roll before a stop leaves it, is fine, with
// and without index files.
func TestEmptyActiveSegment(t *testing.T) {
	for _, keep := range []bool{true, false} {
		mem := vfs.NewMem()
		l := openTest(t, mem, "/t-0", smallOptions())
		appendTest(t, l, record(t, "x"), 0)
		check(t, l.Roll())
		check(t, l.Close())
		if !keep {
			check(t, removeIndexFiles(mem, "/t-0", 1))
		}
		opts := smallOptions()
		opts.Clean, opts.RecoveryPoint = true, 1
		l = openTest(t, mem, "/t-0", opts)
		if l.LEO() != 1 || l.SegmentCount() != 2 || l.Recovery().Cut {
			t.Fatalf("log ends at %d with %d segments", l.LEO(), l.SegmentCount())
		}
		appendTest(t, l, record(t, "y"), 0)
	}
}

// What an interrupted compaction has left is finished or thrown away.
func TestInterruptedCompaction(t *testing.T) {
	fill := func(t *testing.T) (*vfs.Mem, int64) {
		mem := vfs.NewMem()
		l := openTest(t, mem, "/t-0", smallOptions())
		for i := range 80 {
			appendTest(t, l, record(t, fmt.Sprintf("%080d", i)), 0)
		}
		second := l.segments[1].base
		check(t, l.Close())
		return mem, second
	}
	// The first segment, compacted to the batches 3 and 5 and the last.
	compacted := func(t *testing.T, mem *vfs.Mem, second int64) []byte {
		var out []byte
		for rest := readFile(t, mem, firstLog); len(rest) > 0; {
			b, tail, err := batch.Next(rest)
			check(t, err)
			if b.BaseOffset() == 3 || b.BaseOffset() == 5 || b.BaseOffset() == second-1 {
				out = append(out, b...)
			}
			rest = tail
		}
		return out
	}
	opts := smallOptions()
	opts.Clean, opts.RecoveryPoint = true, 80
	t.Run("swap", func(t *testing.T) {
		mem, second := fill(t)
		check(t, writeFile(mem, firstLog+swapSuffix, compacted(t, mem, second)))
		l := openTest(t, mem, "/t-0", opts)
		got := values(t, l, 0)
		if l.LEO() != 80 || len(got) != int(80-second)+3 || !strings.HasSuffix(got[0], "03") || !strings.HasSuffix(got[1], "05") {
			t.Fatalf("log ends at %d with %d values", l.LEO(), len(got))
		}
		for _, name := range fileNames(t, mem, "/t-0") {
			if strings.HasSuffix(name, swapSuffix) {
				t.Errorf("%s is left", name)
			}
		}
	})
	t.Run("cleaned", func(t *testing.T) {
		mem, second := fill(t)
		check(t, writeFile(mem, firstLog+swapSuffix, compacted(t, mem, second)))
		check(t, writeFile(mem, "/t-0/00000000000000000000.index"+cleanedSuffix, nil))
		check(t, writeFile(mem, firstLog+deletedSuffix, []byte("x")))
		l := openTest(t, mem, "/t-0", opts)
		if got := values(t, l, 0); l.LEO() != 80 || len(got) != 80 {
			t.Fatalf("log ends at %d with %d values", l.LEO(), len(got))
		}
		for _, name := range fileNames(t, mem, "/t-0") {
			if strings.HasSuffix(name, swapSuffix) || strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, deletedSuffix) {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// A log whose files end below its checkpointed start begins anew there.
func TestLogEndsBelowItsStart(t *testing.T) {
	mem := tenValues(t)
	opts := smallOptions()
	opts.LogStartOffset = 50
	l := openTest(t, mem, "/t-0", opts)
	if l.LogStartOffset() != 50 || l.LEO() != 50 {
		t.Fatalf("log from %d to %d", l.LogStartOffset(), l.LEO())
	}
	if r := appendTest(t, l, record(t, "x"), 9); r.FirstOffset != 50 {
		t.Fatalf("appended at %d", r.FirstOffset)
	}
}

// A disk that fails once is not trusted again: the log is offline, nothing is
// tried a second time, and the log directory with all its logs goes too.
func TestFailedDiskTakesLogOffline(t *testing.T) {
	boom := errors.New("input/output error")
	for _, kind := range []string{"write", "sync", "create", "rename"} {
		t.Run(kind, func(t *testing.T) {
			mem := vfs.NewMem()
			check(t, Format(mem, "/d", MetaProperties{ClusterID: "c", DirectoryID: protocol.UUID{1}}, now()))
			dir, err := OpenDir(mem, "/d", now())
			check(t, err)
			opts := smallOptions()
			opts.Dir = dir
			l := openTest(t, mem, "/d/t-0", opts)
			other := openTest(t, mem, "/d/t-1", opts)
			appendTest(t, l, records(t, 1, 3000), 0)
			calls := 0
			mem.SetHook(func(op vfs.Op) error {
				if op.Kind != kind {
					return nil
				}
				calls++
				return boom
			})
			_, err = l.AppendAsLeader(records(t, 1, 3000), 0, AppendOptions{}) // rolls
			if err == nil {
				err = l.Flush(l.LEO())
			}
			if !errors.Is(err, protocol.ErrKafkaStorageError) || !errors.Is(err, boom) || calls != 1 {
				t.Fatalf("failed %s: %v after %d calls", kind, err, calls)
			}
			mem.SetHook(nil)
			if _, err := l.AppendAsLeader(record(t, "x"), 0, AppendOptions{}); !errors.Is(err, protocol.ErrKafkaStorageError) {
				t.Fatalf("append afterwards: %v", err)
			}
			if err := l.Flush(l.LEO()); !errors.Is(err, protocol.ErrKafkaStorageError) {
				t.Fatalf("flush afterwards: %v", err)
			}
			if _, err := l.Read(0, 100, 100, true); !errors.Is(err, protocol.ErrKafkaStorageError) {
				t.Fatalf("read afterwards: %v", err)
			}
			if _, err := other.AppendAsLeader(record(t, "x"), 0, AppendOptions{}); !errors.Is(err, protocol.ErrKafkaStorageError) {
				t.Fatalf("append to another log of the directory: %v", err)
			}
			select {
			case <-dir.Failed():
			default:
				t.Fatal("the directory is still in service")
			}
			if err := l.Close(); !errors.Is(err, protocol.ErrKafkaStorageError) {
				t.Fatalf("close: %v", err)
			}
		})
	}
}

// A short write leaves no half batch if the disk still obeys, and in any case
// the next start cuts it.
func TestShortWrite(t *testing.T) {
	mem := tenValues(t)
	l := openTest(t, mem, "/t-0", smallOptions())
	size := l.Size()
	mem.SetHook(func(op vfs.Op) error {
		if op.Kind == "write" {
			return errors.New("no space left on device")
		}
		return nil
	})
	if _, err := l.AppendAsLeader(record(t, "torn"), 1, AppendOptions{}); !errors.Is(err, protocol.ErrKafkaStorageError) {
		t.Fatalf("append: %v", err)
	}
	if got := len(readFile(t, mem, firstLog)); int64(got) != size {
		t.Fatalf("the file has %d bytes, the log %d", got, size)
	}
	mem = tenValues(t)
	l = openTest(t, mem, "/t-0", smallOptions())
	mem.CutPowerAt(mem.Ops() + 1)
	if _, err := l.AppendAsLeader(record(t, "torn"), 1, AppendOptions{}); !errors.Is(err, protocol.ErrKafkaStorageError) {
		t.Fatalf("append: %v", err)
	}
	if l.LEO() != 10 {
		t.Fatalf("log end %d after a failed append", l.LEO())
	}
	l = openTest(t, mem.Kill(), "/t-0", smallOptions())
	if l.LEO() != 10 || !l.Recovery().Torn {
		t.Fatalf("log ends at %d: %+v", l.LEO(), l.Recovery())
	}
}

// A log that was made to begin elsewhere before its first flush, as for a snapshot
// that was fetched, has its recovery point there. What its creation left to the
// first flush must be on disk, then: partition.metadata, and its own name.
func TestBeginningElsewhereIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	opts := smallOptions()
	opts.TopicID = protocol.UUID{1, 2, 3}
	l := openTest(t, mem, "/t-0", opts)
	if err := l.TruncateFullyAndStartAt(100); err != nil {
		t.Fatal(err)
	}
	opts.RecoveryPoint = l.FlushedTo()
	mem = mem.Crash(nil)
	if _, err := mem.Stat("/t-0/" + partitionMetaFile); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, mem, "/t-0", opts)
	if l.TopicID() != opts.TopicID || l.LEO() != 100 {
		t.Errorf("topic id %s, log end %d", l.TopicID(), l.LEO())
	}
}

// Each fault that a build tag puts in is caught by the test named here.
func TestBrokenBuildsAreCaught(t *testing.T) {
	if broken != "" || testing.Short() {
		t.Skip("compiles the package three times")
	}
	if _, err := os.Stat("broken_no.go"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("not in the source directory")
	}
	for tag, test := range map[string]string{
		"broken_crc":   "TestRecoveryChecksEveryCRC",
		"broken_epoch": "TestEpochIsPatched",
		"broken_index": "TestIndexEntriesPointToTheirBatches",
	} {
		out, err := exec.Command("go", "test", "-tags", tag, "-run", "^"+test+"$", ".").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--- FAIL: "+test) {
			t.Errorf("-tags %s: %s did not fail: %v\n%s", tag, test, err, out)
		}
	}
}
