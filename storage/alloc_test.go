package storage

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// An append allocates nothing, with and without an idempotent producer, and
// however many batches and records it has.
func TestAppendDoesNotAllocate(t *testing.T) {
	for name, data := range map[string][]byte{
		"plain":      records(t, 100, 100),
		"idempotent": produced{records: 100, size: 100, producer: &batch.Producer{ID: 1}}.build(t),
		"many":       append(records(t, 10, 100), records(t, 1000, 10)...),
	} {
		t.Run(name, func(t *testing.T) {
			opts := smallOptions()
			opts.Config = DefaultLogConfig()
			l := openTest(t, vfs.OS(), filepath.Join(t.TempDir(), "t-0"), opts)
			l.segments[0].offsets.heap = make([]byte, 0, 1<<20) // grows now and then
			l.segments[0].times.heap = make([]byte, 0, 1<<20)
			sequence := int32(0)
			allocs := testing.AllocsPerRun(200, func() {
				b := batch.Batch(data)
				if b.HasProducerID() {
					setSequence(b, sequence)
					sequence += 100
				}
				if _, err := l.AppendAsLeader(data, 1, AppendOptions{}); err != nil {
					t.Fatal(err)
				}
			})
			if allocs > 0 {
				t.Errorf("%v allocations per append", allocs)
			}
		})
	}
}

// setSequence changes the base sequence of a batch, and leaves its CRC wrong.
func setSequence(b batch.Batch, sequence int32) {
	const at = 53
	b[at], b[at+1], b[at+2], b[at+3] = byte(sequence>>24), byte(sequence>>16), byte(sequence>>8), byte(sequence)
}

// A read allocates its slice and nothing else, on the heap's index and on the
// file's, with and without a hint.
func TestReadAllocatesOneSlice(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		opts := smallOptions()
		opts.Config.SegmentBytes = 1 << 20
		l := openTest(t, vfs.OS(), filepath.Join(t.TempDir(), "t-0"), opts)
		for range 3000 {
			appendTest(t, l, records(t, 10, 50), 1)
		}
		if flushed {
			check(t, l.Flush(l.LEO()))
		}
		offset := int64(0)
		allocs := testing.AllocsPerRun(200, func() {
			offset = (offset + 1237) % 20000
			s, err := l.Read(offset, 10000, math.MaxInt64, true)
			if err != nil || s.Size() == 0 {
				t.Fatal(s, err)
			}
			s.Release()
		})
		if allocs > 1 {
			t.Errorf("flushed %t: %v allocations per read", flushed, allocs)
		}
	}
}

func benchmarkAppend(b *testing.B, size int) {
	opts := smallOptions()
	opts.Config = DefaultLogConfig()
	opts.Now = nil
	l := openTest(b, vfs.OS(), filepath.Join(b.TempDir(), "t-0"), opts)
	data := records(b, size/1024, 1024)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.AppendAsLeader(data, 1, AppendOptions{}); err != nil {
			b.Fatal(err)
		}
		if l.LEO()%100 == 0 && l.Size() > 1<<28 {
			check(b, l.TruncateFullyAndStartAt(0))
		}
	}
}

func BenchmarkAppend16K(b *testing.B) { benchmarkAppend(b, 16<<10) }
func BenchmarkAppend1M(b *testing.B)  { benchmarkAppend(b, 1<<20) }

// benchmarkWrite is the floor of benchmarkAppend: the bare write.
func benchmarkWrite(b *testing.B, size int) {
	f, err := vfs.OS().Create(filepath.Join(b.TempDir(), "f"))
	check(b, err)
	data := records(b, size/1024, 1024)
	b.SetBytes(int64(len(data)))
	at := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(data, at); err != nil {
			b.Fatal(err)
		}
		if at += int64(len(data)); at > 1<<28 {
			check(b, f.Truncate(0))
			at = 0
		}
	}
}

func BenchmarkWrite16K(b *testing.B) { benchmarkWrite(b, 16<<10) }
func BenchmarkWrite1M(b *testing.B)  { benchmarkWrite(b, 1<<20) }

// BenchmarkRead1M reads 1 MiB answers from end to end, without the bytes.
func BenchmarkRead1M(b *testing.B) {
	opts := smallOptions()
	opts.Config = DefaultLogConfig()
	opts.Config.SegmentBytes = 64 << 20
	l := openTest(b, vfs.OS(), filepath.Join(b.TempDir(), "t-0"), opts)
	size := len(records(b, 16, 1024))
	for range 8 << 10 {
		appendTest(b, l, records(b, 16, 1024), 1)
	}
	check(b, l.Flush(l.LEO()))
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		s, err := l.Read(offset, 1<<20, math.MaxInt64, true)
		check(b, err)
		offset += int64(s.Size() / size * 16)
		s.Release()
		if offset >= l.LEO() {
			offset = 0
		}
	}
}

// BenchmarkCreate makes a log, as the creation of a topic does per partition.
func BenchmarkCreate(b *testing.B) {
	s := openStore(b, vfs.OS(), formatDirs(b, vfs.OS(), filepath.Join(b.TempDir(), "d")), DefaultStoreConfig())
	partition := int32(0)
	for b.Loop() {
		_, err := s.Create(tp("x", partition), protocol.UUID{1}, nil)
		check(b, err)
		partition++
	}
}

// BenchmarkCleanStart opens a thousand logs that were closed in order.
func BenchmarkCleanStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "d")
	s := openStore(b, vfs.OS(), formatDirs(b, vfs.OS(), path), DefaultStoreConfig())
	for i := range int32(1000) {
		l, err := s.Create(tp("x", i), protocol.UUID{1}, nil)
		check(b, err)
		appendTest(b, l, records(b, 10, 100), 1)
	}
	for b.Loop() {
		b.StopTimer()
		closeStore(b, s, 1)
		b.StartTimer()
		s = openStore(b, vfs.OS(), openDirs(b, vfs.OS(), path), DefaultStoreConfig())
	}
}
