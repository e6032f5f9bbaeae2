package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/klamm/klamm/raftlog"
)

// A log that another Raft has filled is the state that a new one begins with:
// what comes next is behind it, after a restart as well.
func TestInherit(t *testing.T) {
	w := newWorld(t)
	if state, err := w.r.Inherit(); state != nil || err != nil {
		t.Errorf("of an empty log: %v, %v", state, err)
	}
	w.apply([]raftlog.Entry{w.entry([]string{"topic t1 1"}, 1), w.entry([]string{"topic t2 2"}, 1)})
	end := w.r.Image().Offset() + 1

	w.reopen(t) // no entry is repeated: the new Raft has none
	w.entries = nil
	if _, err := w.r.Snapshot(); !errors.Is(err, ErrBehind) {
		t.Errorf("a snapshot of what Raft has not repeated: %v", err)
	}
	state, err := w.r.Inherit()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := w.store.Create(raftlog.SnapshotMeta{Index: 1, Term: 1})
	if err == nil {
		_, err = state.WriteTo(sink)
	}
	if err := errors.Join(err, sink.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.restore(w.store, sink.ID()); err != nil {
		t.Fatal(err)
	}
	w.term = 2
	next := w.entry([]string{"topic t3 3"}, w.term)
	if got := w.apply([]raftlog.Entry{next}); w.r.Image().Offset() != end {
		t.Errorf("the first entry is at %d, want %d: %s", w.r.Image().Offset(), end, got)
	}

	w.reopen(t)
	if err := w.restore(w.store, sink.ID()); err != nil {
		t.Fatal(err)
	}
	if got := w.apply([]raftlog.Entry{next}); strings.Contains(got, "another history") || w.r.Image().Offset() != end {
		t.Errorf("the same entry after a restart: %s", got)
	}
}

func (w *world) reopen(t *testing.T) {
	t.Helper()
	if err := errors.Join(w.log.Close(), w.open()); err != nil {
		t.Fatal(err)
	}
}
