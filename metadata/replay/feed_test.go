package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
)

// A controller that becomes a voter, or is one no more, is fed by fetching and by Raft
// in any order, gets snapshots from either, and starts anew in between: it ends with
// the leader's log and state.
func TestTwoFeeders(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { feedTwice(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func feedTwice(t *testing.T, rng *rand.Rand) {
	leader, w := newWorld(t), newWorld(t)
	applied, snapshotAt := 0, 0 // entries of the leader's that Raft has brought, and that its newest snapshot covers
	topics := 0
	leader.apply([]raftlog.Entry{leader.entry([]string{"kraft 1", "voters 1"}, leader.term)})
	grow := func() {
		var entries []raftlog.Entry
		for range 1 + rng.IntN(3) {
			lines := []string{"voters 1"}
			if rng.IntN(4) > 0 {
				topics++
				lines = []string{fmt.Sprintf("topic t%d %d", topics, topics)}
			}
			entries = append(entries, leader.entry(lines, leader.term))
		}
		leader.apply(entries)
	}
	// Raft's leader may have kept what its snapshot covers.
	brings := func(count int) int { return raftBrings(t, leader, w, applied, snapshotAt*rng.IntN(2), count) }
	fetch := func() {
		from, _ := w.r.End()
		if from < leader.log.LogStartOffset() || from >= leader.log.LEO() {
			return
		}
		slice, err := leader.log.Read(from, 1+rng.IntN(300), leader.log.LEO(), true)
		if err != nil {
			t.Fatal(err)
		}
		batches, err := slice.Bytes()
		slice.Release()
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 { // Raft is faster than the answer
			applied = brings(1)
		}
		if batches, err = batch.Whole(batches, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.r.Append(batches); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) > 0 {
			if err := w.r.Advance(w.log.LEO() - int64(rng.IntN(2))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 60 {
		switch rng.IntN(7) {
		case 0, 1:
			grow()
		case 2, 3:
			fetch()
		case 4:
			applied = brings(1 + rng.IntN(3))
		case 5:
			if len(leader.entries) > snapshotAt && rng.IntN(2) == 0 {
				if err := leader.takeSnapshot(uint64(len(leader.entries))); err != nil {
					t.Fatal(err)
				}
				snapshotAt = len(leader.entries)
				if rng.IntN(2) == 0 { // fetched by the one
					id := snapshot.ID{Offset: leader.r.Image().Offset() + 1, Epoch: leader.r.Image().Epoch()}
					copyCheckpoint(t, leader, w, id)
					if rng.IntN(3) == 0 { // Raft is faster
						grow()
						applied = brings(len(leader.entries))
					}
					if err := w.r.Install(id); err != nil {
						t.Fatal(err)
					}
				} else { // sent by the other
					if err := w.installFrom(leader, true); err != nil {
						t.Fatal(err)
					}
					applied = snapshotAt
				}
			} else if err := w.r.WriteSnapshot(t.Context()); err != nil && w.log.LEO() > 0 && w.r.Image().Offset() >= 0 {
				t.Fatal(err)
			}
		case 6:
			w.reopen(t)
			index, err := w.restartRaft()
			if err != nil {
				t.Fatal(err)
			}
			applied = int(index)
		}
	}
	applied = brings(len(leader.entries))
	if applied != len(leader.entries) {
		t.Fatalf("Raft brought %d of %d entries", applied, len(leader.entries))
	}
	if got, want := w.r.Image().Digest(), leader.r.Image().Digest(); got != want || w.r.Image().Offset() != leader.r.Image().Offset() {
		t.Errorf("at %d with digest %s, the leader at %d with %s", w.r.Image().Offset(), got, leader.r.Image().Offset(), want)
	}
	if (w.r.Quorum().Voters == nil) != (leader.r.Quorum().Voters == nil) {
		t.Errorf("voters %v, the leader's %v", w.r.Quorum().Voters, leader.r.Quorum().Voters)
	}
	if w.log.LEO() != leader.log.LEO() {
		t.Errorf("the log ends at %d, the leader's at %d", w.log.LEO(), leader.log.LEO())
	}
}

// raftBrings applies the next entries, behind a snapshot where those before it are gone
// from the leader's log.
func raftBrings(t *testing.T, leader, w *world, applied, snapshotAt, count int) int {
	t.Helper()
	if applied < snapshotAt {
		if err := w.installFrom(leader, true); err != nil {
			t.Fatal(err)
		}
		applied = snapshotAt
	}
	end := min(applied+count, len(leader.entries))
	if end == applied {
		return applied
	}
	if _, err := w.r.Apply(slices.Clone(leader.entries[applied:end])); err != nil {
		t.Fatal(err)
	}
	return end
}

func copyCheckpoint(t *testing.T, from, to *world, id snapshot.ID) {
	t.Helper()
	f, err := from.fs.Open(metadataDir + "/" + id.FileName())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.Create(to.fs, metadataDir, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
