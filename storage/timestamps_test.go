package storage

import (
	"fmt"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// Times are looked up record by record, in plain and compressed batches, on
// the heap and in the files, and they need not rise.
func TestOffsetForTimestamp(t *testing.T) {
	base := testNow.UnixMilli()
	type record struct{ offset, timestamp int64 }
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLZ4, batch.CodecZstd} {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
			var records []record
			largest := record{-1, -1}
			for i := range int64(120) {
				at := base + 10*i
				if i%7 == 3 {
					at -= 45 // late
				}
				appendTest(t, l, produced{records: 3, size: 40, timestamp: at, codec: codec}.build(t), 2)
				for j := range int64(3) {
					r := record{3*i + j, at + j}
					records = append(records, r)
					if r.timestamp > largest.timestamp {
						largest = r
					}
				}
			}
			compare := func(when string) {
				t.Helper()
				for at := base - 50; at < base+1300; at++ {
					want := record{-1, -1}
					for _, r := range records {
						if r.timestamp >= at && r.offset >= l.LogStartOffset() {
							want = r
							break
						}
					}
					got, ok, err := l.OffsetForTimestamp(at)
					if err != nil || ok != (want.offset >= 0) || ok && (got.Offset != want.offset || got.TimestampMs != want.timestamp || got.Epoch != 2) {
						t.Fatalf("%s: time %d: %+v, %t, %v; want %+v", when, at-base, got, ok, err, want)
					}
				}
				got, ok, err := l.OffsetOfMaxTimestamp()
				if err != nil || !ok || got.Offset != largest.offset || got.TimestampMs != largest.timestamp {
					t.Fatalf("%s: largest time: %+v, %t, %v; want %+v", when, got, ok, err, largest)
				}
			}
			compare("on the heap")
			check(t, l.Flush(l.LEO()))
			compare("in the files")
			check(t, l.AdvanceLogStart(100))
			compare("from a later start")
		})
	}
}

func TestTimestampsOfNothing(t *testing.T) {
	l := openTest(t, vfs.NewMem(), "/t-0", smallOptions())
	for range 2 {
		if got, ok, err := l.OffsetForTimestamp(1); ok || err != nil {
			t.Fatalf("found %+v, %v", got, err)
		}
		if got, ok, err := l.OffsetOfMaxTimestamp(); ok || err != nil {
			t.Fatalf("largest is %+v, %v", got, err)
		}
		// Records without timestamps change nothing.
		appendTest(t, l, produced{timestamp: -1, value: "x"}.build(t), 0)
	}
	check(t, l.Close())
}

// A time that lies in records which do not decompress is damage of the content,
// and not a fault of the disk: the log and its directory stay in use.
func TestTimeInDamagedRecords(t *testing.T) {
	mem := vfs.NewMem()
	check(t, mem.Mkdir("/t-0"))
	l := openTest(t, mem, "/t-0", smallOptions())
	appendTest(t, l, produced{records: 3, size: 50, codec: batch.CodecGzip}.build(t), 1)
	check(t, l.Close())
	data := readFile(t, mem, firstLog)
	clear(data[batch.HeaderSize:])
	check(t, writeFile(mem, firstLog, data))

	opts := smallOptions()
	opts.Clean, opts.RecoveryPoint = true, 3
	l = openTest(t, mem, "/t-0", opts)
	if _, _, err := l.OffsetForTimestamp(testNow.UnixMilli()); protocol.CodeOf(err) != protocol.ErrCorruptMessage {
		t.Errorf("got %v", err)
	}
	appendTest(t, l, record(t, "x"), 1)
	check(t, l.Close())
}
