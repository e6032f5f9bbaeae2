package storage

import (
	"errors"
	"testing"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage/vfs"
)

// sequenced is a batch of two records of a producer.
func sequenced(t testing.TB, id int64, epoch int16, sequence int32) []byte {
	return produced{records: 2, size: 40, producer: &batch.Producer{ID: id, Epoch: epoch, BaseSequence: sequence}}.build(t)
}

// TestRetriesAfterStart: up to five batches of a producer that are in the log are
// known again after a start, although a snapshot holds the last of them alone.
// Where they are taken for out of order, the producer gives up, or begins anew
// and writes them twice.
func TestRetriesAfterStart(t *testing.T) {
	for _, c := range []struct {
		name string
		// batches are the producer's, others those of others between two of them.
		batches, others int
		// stop ends the log's life and returns what the next one finds.
		stop func(*testing.T, *Log, *vfs.Mem) (*vfs.Mem, bool)
		// more are batches behind the start.
		more int
	}{
		{"clean", 7, 0, closed, 0},
		{"clean, few", 3, 0, closed, 0},
		{"clean, among others", 7, 20, closed, 0},
		{"clean, over segments", 8, 90, closed, 0},
		{"clean, going on", 7, 3, closed, 2},
		{"clean, going on for long", 7, 3, closed, 6},
		{"killed behind a snapshot", 7, 3, func(t *testing.T, l *Log, mem *vfs.Mem) (*vfs.Mem, bool) {
			check(t, l.Roll())
			check(t, l.Flush(l.LEO()))
			return mem.Kill(), false
		}, 0},
	} {
		mem := vfs.NewMem()
		l := openTest(t, mem, "/t-0", smallOptions())
		offsets := map[int32]int64{} // by sequence
		next := int32(0)
		write := func() {
			t.Helper()
			offsets[next] = appendTest(t, l, sequenced(t, 7, 1, next), 1).FirstOffset
			next += 2
		}
		// An earlier epoch's batches are not this one's.
		appendTest(t, l, sequenced(t, 7, 0, 0), 1)
		for range c.batches {
			write()
			for i := range c.others {
				appendTest(t, l, sequenced(t, int64(100+i), 0, (next/2-1)*2), 1)
			}
		}
		opts := smallOptions()
		opts.RecoveryPoint = l.LEO()
		mem, opts.Clean = c.stop(t, l, mem)
		l = openTest(t, mem, "/t-0", opts)
		for range c.more {
			write()
		}
		end := l.LEO()
		for sequence := next - 2; sequence >= 0; sequence -= 2 {
			r, err := l.AppendAsLeader(sequenced(t, 7, 1, sequence), 1, AppendOptions{})
			switch known := sequence >= next-2*cachedBatches; {
			case known && (err != nil || !r.Duplicate || r.FirstOffset != offsets[sequence] || r.LastOffset != offsets[sequence]+1):
				t.Errorf("%s: sequence %d, again: %+v, %v; it is at offset %d", c.name, sequence, r, err, offsets[sequence])
			case !known && !errors.Is(err, protocol.ErrOutOfOrderSequenceNumber):
				t.Errorf("%s: sequence %d, too old: %+v, %v", c.name, sequence, r, err)
			}
		}
		if _, err := l.AppendAsLeader(sequenced(t, 7, 1, next+2), 1, AppendOptions{}); !errors.Is(err, protocol.ErrOutOfOrderSequenceNumber) {
			t.Errorf("%s: a gap: %v", c.name, err)
		}
		if l.LEO() != end {
			t.Errorf("%s: the log has grown from %d to %d", c.name, end, l.LEO())
		}
		write()
	}
}

func closed(t *testing.T, l *Log, mem *vfs.Mem) (*vfs.Mem, bool) {
	check(t, l.Close())
	return mem, true
}
