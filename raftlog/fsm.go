package raftlog

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// maxRepeats is how often one snapshot may be installed with nothing applied
// in between before it counts as the loop of #697.
const maxRepeats = 3

// result is what Propose learns of its entry.
type result struct {
	offset int64
	term   uint64
}

// fsm drives the state machine for Raft. It implements raft.BatchingFSM: with
// it the library's own index moves over membership entries too, without which
// a snapshot right after one would fail.
//
// All methods run on the library's FSM goroutine, and during the start on that
// of Run, before there is any other.
type fsm struct {
	sm      StateMachine
	fail    *failure
	started atomic.Bool // an error must not get back into the library any more

	applying func() // called after each batch; nil for nobody

	applied atomic.Uint64 // last entry that the state machine has
	looping chan struct{} // closed when the same snapshot comes again and again

	// floor is what the state machine has from an earlier session: a library that
	// starts without a snapshot begins with the first entry again.
	floor uint64

	restored uint64 // index of the last snapshot, if nothing came after it
	repeats  int
}

// newFSM returns what drives a state machine that has the entries up to floor.
func newFSM(sm StateMachine, fail *failure, floor uint64) *fsm {
	f := &fsm{sm: sm, fail: fail, floor: floor, looping: make(chan struct{})}
	f.applied.Store(floor)
	return f
}

// ApplyBatch applies what is ours among the entries, and answers all.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	entries := make([]Entry, 0, len(logs))
	for _, l := range logs {
		if f.isNew(l) {
			entries = append(entries, Entry{Index: l.Index, Term: l.Term, Data: l.Data})
		}
	}
	answers := make([]any, len(logs))
	if len(entries) == 0 {
		return answers
	}
	first, last := entries[0].Index, entries[len(entries)-1].Index
	offsets, err := f.sm.Apply(entries)
	if err == nil && len(offsets) != len(entries) {
		err = fmt.Errorf("%d answers for %d entries", len(offsets), len(entries))
	}
	if err != nil {
		// The library knows no failure of an FSM. Its goroutine ends here, with
		// the batch unanswered, and Run ends the rest.
		f.fail.set(fmt.Errorf("apply entries %d to %d of the metadata log: %w", first, last, err))
		runtime.Goexit()
	}
	i := 0
	for j, l := range logs {
		if f.isNew(l) {
			answers[j] = result{offset: offsets[i], term: l.Term}
			i++
		}
	}
	f.applied.Store(last)
	f.restored, f.repeats = 0, 0
	if f.applying != nil {
		f.applying()
	}
	return answers
}

// isNew tells an entry of ours that the state machine lacks.
func (f *fsm) isNew(l *raft.Log) bool { return l.Type == raft.LogCommand && l.Index > f.floor }

// Apply is never called, since there is ApplyBatch.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// Snapshot captures the state. Persist runs later, beside ApplyBatch.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	s, err := f.sm.Snapshot()
	if err != nil {
		return nil, err
	}
	return capture{s}, nil
}

type capture struct{ snap Snapshot }

// Persist writes the state. The library closes the sink, or cancels it.
func (c capture) Persist(sink raft.SnapshotSink) error {
	_, err := c.snap.WriteTo(sink)
	return err
}

func (c capture) Release() { c.snap.Release() }

// Restore replaces the state by a snapshot's. A failure would leave the
// library at work on half a state, so it ends the node.
func (f *fsm) Restore(source io.ReadCloser) error {
	err := f.restore(source)
	if err != nil {
		f.fail.set(err)
		if f.started.Load() {
			runtime.Goexit()
		}
	}
	return err
}

func (f *fsm) restore(source io.ReadCloser) error {
	for {
		wrapped, ok := source.(raft.ReadCloserWrapper)
		if !ok {
			break
		}
		source = wrapped.WrappedReadCloser()
	}
	s, ok := source.(*snapshotReader)
	if !ok {
		return fmt.Errorf("restore from a %T, which is no snapshot of ours", source)
	}
	if f.started.Load() && f.again(s.meta.Index) {
		close(f.looping)
		runtime.Goexit()
	}
	if err := f.sm.Restore(s.meta, s); err != nil {
		return fmt.Errorf("restore snapshot %s: %w", s.meta.ID, err)
	}
	f.applied.Store(s.meta.Index)
	f.floor = 0 // what follows it comes again, and the state machine knows
	return nil
}

// again counts installs of the same snapshot in a row.
func (f *fsm) again(index uint64) bool {
	if index != f.restored {
		f.restored, f.repeats = index, 0
	}
	f.repeats++
	return f.repeats >= maxRepeats
}
