package raftlog_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// implementation is a Log under the contract's tests. All logs that one of them
// opens share what survives a restart.
type implementation interface {
	open(t *testing.T, m *machine, s *snapshots) raftlog.Log
	depose(l raftlog.Log, leader protocol.NodeID)
	lead(l raftlog.Log)
}

// engines opens raftlog's engine in one directory.
type engines struct{ cfg raftlog.Config }

func (e *engines) open(t *testing.T, m *machine, s *snapshots) raftlog.Log {
	if e.cfg.Dir == "" {
		e.cfg = loneConfig(t)
	}
	cfg := e.cfg
	cfg.StateMachine, cfg.Snapshots = m, s
	l, err := raftlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (e *engines) depose(l raftlog.Log, leader protocol.NodeID) {
	l.(*raftlog.Engine).Depose(raftlog.ServerIDForTest(leader))
}
func (e *engines) lead(l raftlog.Log) { l.(*raftlog.Engine).Lead() }

func loneConfig(t *testing.T) raftlog.Config {
	return raftlog.Config{
		Dir:         t.TempDir(),
		NodeID:      1,
		DirectoryID: protocol.UUID{1, 1},
		ClusterID:   "a-cluster",
		Voters:      []raftlog.Voter{{ID: 1, Endpoint: "localhost:0"}},
		// Long, so that no test passes by the library's own timers.
		ElectionTimeout: time.Minute,
		FetchTimeout:    2 * time.Minute,
		FirstEntry:      firstEntry,
		Logger:          zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel),
	}
}

// memlogs opens memlogs over one Disk.
type memlogs struct{ disk memlog.Disk }

func (e *memlogs) open(_ *testing.T, m *machine, s *snapshots) raftlog.Log {
	return memlog.New(memlog.Config{NodeID: 1, StateMachine: m, Snapshots: s, FirstEntry: firstEntry, Disk: &e.disk})
}

func (e *memlogs) depose(l raftlog.Log, leader protocol.NodeID) { l.(*memlog.Log).Depose(leader) }
func (e *memlogs) lead(l raftlog.Log)                           { l.(*memlog.Log).Lead() }

// TestContract is what every Log keeps.
func TestContract(t *testing.T) {
	tests := map[string]func(*testing.T, implementation){
		"does nothing before Run":                      doesNothingBeforeRun,
		"reports leadership after its first entry":     reportsLeadershipAfterFirstEntry,
		"applies in order and returns offsets":         appliesInOrder,
		"refuses a wrong epoch":                        refusesWrongEpoch,
		"refuses after the leadership is lost":         refusesAfterLoss,
		"tells nothing of an entry after the deadline": unknownAfterDeadline,
		"does not append after the deadline":           notAppendedAfterDeadline,
		"ends with the state machine's error":          endsWithApplyError,
		"ends when the first entry is skipped":         endsWhenFirstEntrySkipped,
		"restores the newest snapshot at a restart":    restoresSnapshot,
		"applies again after a restart":                appliesAgain,
		"ends with a snapshot that can not be read":    endsWithBrokenSnapshot,
		"knows its own progress":                       knowsProgress,
		"refuses an entry that is too large":           refusesTooLarge,
	}
	for _, impl := range []struct {
		name string
		make func() implementation
	}{
		{"engine", func() implementation { return &engines{} }},
		{"memlog", func() implementation { return &memlogs{} }},
	} {
		for name, test := range tests {
			t.Run(impl.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, impl.make())
			})
		}
	}
}

func doesNothingBeforeRun(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	if cur, _ := l.Leadership(); cur.Leading || cur.Leader != protocol.NoNode {
		t.Errorf("leadership before Run: %+v", cur)
	}
	if _, err := l.Propose(within(t), 1, entry(1, "x")); !errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose before Run: %v", err)
	}
	if st := l.Status(); len(st.Voters) != 1 || st.Voters[0].LastFetchMs != -1 {
		t.Errorf("status before Run: %+v", st)
	}
	if _, seen := m.get(); len(seen) != 0 {
		t.Errorf("applied before Run: %v", seen)
	}
}

func reportsLeadershipAfterFirstEntry(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	early := make(chan raftlog.Leadership, 1)
	m.onApply = func(raftlog.Entry) error {
		cur, _ := l.Leadership()
		early <- cur
		return nil
	}
	r := run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	if before := <-early; before.Leading {
		t.Errorf("leadership was reported before the first entry was applied: %+v", before)
	}
	_, seen := m.get()
	if len(seen) != 1 || seen[0].Term != uint64(cur.Epoch) {
		t.Fatalf("applied %v in epoch %d", seen, cur.Epoch)
	}
	if cur.Epoch < 1 || cur.Leader != 1 || cur.Offset != 0 {
		t.Errorf("leadership %+v", cur)
	}
	if err := r.end(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if cur, _ := l.Leadership(); cur.Leading {
		t.Errorf("leadership after Run: %+v", cur)
	}
	if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose after Run: %v", err)
	}
}

func appliesInOrder(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	buf := entry(cur.Epoch, "?")
	for i, text := range []string{"a", "b", "c"} {
		copy(buf[8:], text)
		offset, err := l.Propose(within(t), cur.Epoch, buf)
		if err != nil || offset != int64(i+1) {
			t.Fatalf("Propose %s: offset %d, %v", text, offset, err)
		}
	}
	// Skipped by the state machine for its own reasons.
	if offset, err := l.Propose(within(t), cur.Epoch, entry(99, "stale")); err != nil || offset != raftlog.Skipped {
		t.Errorf("Propose with another stamp: %d, %v", offset, err)
	}
	if got, want := m.texts(), []string{"first", "a", "b", "c", "stale"}; !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
	_, seen := m.get()
	for i, e := range seen {
		if i > 0 && e.Index <= seen[i-1].Index || e.Term != uint64(cur.Epoch) {
			t.Errorf("entry %d has index %d, term %d", i, e.Index, e.Term)
		}
	}
}

func refusesWrongEpoch(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	for _, epoch := range []protocol.ControllerEpoch{cur.Epoch - 1, cur.Epoch + 1} {
		if _, err := l.Propose(within(t), epoch, entry(epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("Propose in epoch %d, while it is %d: %v", epoch, cur.Epoch, err)
		}
	}
	if got := m.texts(); len(got) != 1 {
		t.Errorf("applied %v", got)
	}
}

func refusesAfterLoss(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	run(t, l)
	old := leading(t, l, "leadership", inOffice)
	_, changed := l.Leadership()
	impl.depose(l, 7)
	<-changed
	cur := leading(t, l, "another leader", func(x raftlog.Leadership) bool { return x.Leader == 7 })
	if cur.Leading || cur.Epoch <= old.Epoch {
		t.Errorf("leadership after the loss: %+v", cur)
	}
	for _, epoch := range []protocol.ControllerEpoch{old.Epoch, cur.Epoch} {
		if _, err := l.Propose(within(t), epoch, entry(epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("Propose in epoch %d after the loss: %v", epoch, err)
		}
	}
	impl.lead(l)
	again := leading(t, l, "leadership", inOffice)
	if again.Epoch <= cur.Epoch || again.Offset != 1 {
		t.Errorf("leadership again: %+v", again)
	}
	if _, err := l.Propose(within(t), old.Epoch, entry(old.Epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose in the lost epoch %d: %v", old.Epoch, err)
	}
	if offset, err := l.Propose(within(t), again.Epoch, entry(again.Epoch, "y")); err != nil || offset != 2 {
		t.Errorf("Propose: %d, %v", offset, err)
	}
	if got, want := m.texts(), []string{"first", "first", "y"}; !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
}

func unknownAfterDeadline(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	applying, goOn := make(chan struct{}), make(chan struct{})
	m.mu.Lock()
	m.onApply = func(raftlog.Entry) error {
		applying <- struct{}{}
		<-goOn
		return nil
	}
	m.mu.Unlock()
	if mem, ok := l.(*memlog.Log); ok {
		// Committed on the proposer's goroutine, it could not return.
		mem.Hold()
		go func() {
			for mem.Pending() == nil {
			}
			mem.Commit()
		}()
	}
	ctx, cancel := context.WithCancel(within(t))
	result := make(chan error, 1)
	go func() {
		_, err := l.Propose(ctx, cur.Epoch, entry(cur.Epoch, "slow"))
		result <- err
	}()
	<-applying
	cancel()
	err := <-result
	if !errors.Is(err, raftlog.ErrUnknownOutcome) || errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose: %v", err)
	}
	if protocol.CodeOf(err) != protocol.ErrRequestTimedOut {
		t.Errorf("its code is %v", protocol.CodeOf(err))
	}
	// The next one waits until the fate of this one is known.
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Propose(short, cur.Epoch, entry(cur.Epoch, "never")); !errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose behind one in flight: %v", err)
	}
	m.mu.Lock()
	m.onApply = nil
	m.mu.Unlock()
	close(goOn)
	if mem, ok := l.(*memlog.Log); ok {
		mem.Release()
	}
	if offset, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "next")); err != nil || offset != 2 {
		t.Errorf("Propose: %d, %v", offset, err)
	}
	if got, want := m.texts(), []string{"first", "slow", "next"}; !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
}

func notAppendedAfterDeadline(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 10 { // either of two ready channels may be taken
		if _, err := l.Propose(ctx, cur.Epoch, entry(cur.Epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
			t.Fatalf("Propose: %v", err)
		}
	}
	if got := m.texts(); len(got) != 1 {
		t.Errorf("applied %v", got)
	}
}

func endsWithApplyError(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	r := run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	boom := errors.New("can not be applied")
	m.mu.Lock()
	m.onApply = func(raftlog.Entry) error { return boom }
	m.mu.Unlock()
	if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "bad")); !errors.Is(err, raftlog.ErrUnknownOutcome) {
		t.Errorf("Propose: %v", err)
	}
	if err := <-r.done; !errors.Is(err, boom) {
		t.Errorf("Run returned %v", err)
	}
	if cur, _ := l.Leadership(); cur.Leading {
		t.Errorf("leadership after the end: %+v", cur)
	}
	if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
		t.Errorf("Propose after the end: %v", err)
	}
}

// skipper skips everything.
type skipper struct{ *machine }

func (s skipper) Apply(entries []raftlog.Entry) ([]int64, error) {
	out := make([]int64, len(entries))
	for i := range out {
		out[i] = raftlog.Skipped
	}
	return out, nil
}

func endsWhenFirstEntrySkipped(t *testing.T, impl implementation) {
	var l raftlog.Log
	if _, ok := impl.(*engines); ok {
		cfg := loneConfig(t)
		cfg.StateMachine, cfg.Snapshots = skipper{newMachine()}, &snapshots{}
		e, err := raftlog.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l = e
	} else {
		l = memlog.New(memlog.Config{NodeID: 1, StateMachine: skipper{newMachine()}, FirstEntry: firstEntry})
	}
	if err := <-run(t, l).done; err == nil {
		t.Error("Run returned without an error")
	}
}

func restoresSnapshot(t *testing.T, impl implementation) {
	m, snaps := newMachine(), &snapshots{}
	l := impl.open(t, m, snaps)
	r := run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	for _, text := range []string{"a", "b"} {
		if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, text)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second has nothing to do
		if err := l.TakeSnapshot(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if len(snaps.all) != 1 {
		t.Fatalf("%d snapshots", len(snaps.all))
	}
	_, seen := m.get()
	if meta := snaps.all[0].meta; meta.Index != seen[2].Index || meta.Term != seen[2].Term {
		t.Errorf("snapshot %+v, last entry %+v", meta, seen[2])
	}
	if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "c")); err != nil {
		t.Fatal(err)
	}
	before, _ := m.get()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	again := newMachine()
	l = impl.open(t, again, snaps)
	r = run(t, l)
	next := leading(t, l, "leadership", inOffice)
	if next.Epoch <= cur.Epoch {
		t.Errorf("epoch %d after epoch %d", next.Epoch, cur.Epoch)
	}
	if got, want := again.texts(), []string{"c", "first"}; !slices.Equal(got, want) {
		t.Errorf("applied %v, want %v", got, want)
	}
	if !slices.Equal(again.restored, []uint64{snaps.all[0].meta.Index}) {
		t.Errorf("restored %v", again.restored)
	}
	if next.Offset != before.Next {
		t.Errorf("the first entry is at %d, want %d", next.Offset, before.Next)
	}
	_ = r.end()
}

func appliesAgain(t *testing.T, impl implementation) {
	m := newMachine()
	l := impl.open(t, m, &snapshots{})
	r := run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	if _, err := l.Propose(within(t), cur.Epoch, entry(cur.Epoch, "a")); err != nil {
		t.Fatal(err)
	}
	_ = r.end()
	_, before := m.get()

	again := newMachine()
	l = impl.open(t, again, &snapshots{})
	run(t, l)
	leading(t, l, "leadership", inOffice)
	_, after := again.get()
	for i, e := range before {
		if a := after[i]; a.Index != e.Index || a.Term != e.Term || string(a.Data) != string(e.Data) {
			t.Errorf("entry %d: %+v, after the restart %+v", i, e, a)
		}
	}
}

func endsWithBrokenSnapshot(t *testing.T, impl implementation) {
	m, snaps := newMachine(), &snapshots{}
	l := impl.open(t, m, snaps)
	r := run(t, l)
	leading(t, l, "leadership", inOffice)
	if err := l.TakeSnapshot(within(t)); err != nil {
		t.Fatal(err)
	}
	_ = r.end()
	snaps.broken = errors.New("input/output error")
	l = impl.open(t, newMachine(), snaps)
	if err := <-run(t, l).done; !errors.Is(err, snaps.broken) {
		t.Errorf("Run returned %v", err)
	}
}

func knowsProgress(t *testing.T, impl implementation) {
	l := impl.open(t, newMachine(), &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	st := l.Status()
	if st.Leadership != cur || st.LastIndex == 0 || len(st.Voters) != 1 {
		t.Fatalf("status %+v", st)
	}
	if v := st.Voters[0]; v.ID != 1 || v.AckedIndex != st.LastIndex || v.LastFetchMs <= 0 || v.CaughtUpMs <= 0 {
		t.Errorf("voter %+v", v)
	}
}

func refusesTooLarge(t *testing.T, impl implementation) {
	l := impl.open(t, newMachine(), &snapshots{})
	run(t, l)
	cur := leading(t, l, "leadership", inOffice)
	_, err := l.Propose(within(t), cur.Epoch, make([]byte, raftlog.MaxEntryBytes+1))
	if protocol.CodeOf(err) != protocol.ErrRecordListTooLarge {
		t.Errorf("Propose: %v", err)
	}
}
