package replay

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klamm/klamm/storage/vfs"
)

// life applies entries and takes two snapshots. Raft's own store is not part
// of it: what was committed stays committed. It returns the index of the last
// snapshot that counts.
func (w *world) life() (snapshotIndex uint64, err error) {
	for _, line := range [][]string{
		{"leader 1"},
		{"feature metadata.version 33", "broker 1 1"},
		{"topic orders 1", "partition 1 0 replicas=1 leader=1"},
		nil,
		{"begin", "topic more 2"},
		{"partition 2 0 replicas=1 leader=1", "end"},
		{"change 1 0 leader=1"},
		nil,
		{"config orders retention.ms=1"},
		{"remove 2"},
	} {
		if line == nil {
			index := uint64(len(w.entries))
			if err := w.takeSnapshot(index); err != nil {
				return snapshotIndex, err
			}
			snapshotIndex = index
			continue
		}
		e := w.entry(line, w.term)
		if _, err := w.r.Apply(w.entries[e.Index-1:]); err != nil {
			return snapshotIndex, err
		}
	}
	return snapshotIndex, nil
}

// The power goes at every change that a life makes. Whatever the disk has
// then, the node starts by itself, gets from Raft what it lacks, and ends with
// the same log and image as one that never died.
func TestPowerCut(t *testing.T) {
	whole := newWorld(t)
	before := whole.fs.Ops()
	if _, err := whole.life(); err != nil {
		t.Fatal(err)
	}
	changes := whole.fs.Ops() - before
	wantLog, wantDigest := whole.printLog(), whole.r.Image().Digest()
	rng := rand.New(rand.NewPCG(7, 7))
	for at := 1; at <= changes+1; at++ {
		w := newWorld(t)
		w.fs.CutPowerAt(before + at)
		counted, err := w.life()
		if (err == nil) != (at > changes) {
			t.Fatalf("change %d of %d: error %v", at, changes, err)
		}
		disk := w.fs
		for name, after := range map[string]*vfs.Mem{
			"strict": disk.Crash(nil), "lucky": disk.Crash(rng), "lucky again": disk.Crash(rng), "killed": disk.Kill(),
		} {
			again := &world{t: t, fs: after, term: 1, entries: whole.entries}
			if err := again.recover(counted); err != nil {
				t.Errorf("change %d of %d, %s: %v", at, changes, name, err)
				continue
			}
			if got := again.printLog(); got != wantLog {
				t.Errorf("change %d of %d, %s: log\n%s\nwant\n%s", at, changes, name, got, wantLog)
			}
			if again.r.Image().Digest() != wantDigest {
				t.Errorf("change %d of %d, %s: image\n%s", at, changes, name, printImage(again.r.Image()))
			}
		}
	}
}

// recover starts on what is left, and repeats Raft's entries since its snapshot.
func (w *world) recover(counted uint64) error {
	if err := w.open(); err != nil {
		return err
	}
	index, err := w.restartRaft()
	if err != nil {
		return err
	}
	if index < counted {
		return errors.New("a snapshot that counted is gone")
	}
	for i := index; i < uint64(len(w.entries)); i += 2 { // as Raft batches them
		if _, err := w.r.Apply(w.entries[i:min(i+2, uint64(len(w.entries)))]); err != nil {
			return err
		}
	}
	if _, err := w.r.Snapshot(); err != nil {
		return err
	}
	return nil
}
