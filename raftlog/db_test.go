package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/klamm/klamm/protocol"
)

// fakeDB counts writes, and fails or hangs on demand.
type fakeDB struct {
	*raft.InmemStore
	mu     sync.Mutex
	writes []string
	err    error
	hang   chan struct{}
}

func newFakeDB() *fakeDB { return &fakeDB{InmemStore: raft.NewInmemStore()} }

func (d *fakeDB) write(op string) error {
	d.mu.Lock()
	d.writes = append(d.writes, op)
	err, hang := d.err, d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (d *fakeDB) StoreLogs(logs []*raft.Log) error {
	if err := d.write("append"); err != nil {
		return err
	}
	return d.InmemStore.StoreLogs(logs)
}

func (d *fakeDB) DeleteRange(lo, hi uint64) error {
	if err := d.write(fmt.Sprintf("delete %d-%d", lo, hi)); err != nil {
		return err
	}
	// The library's in-memory store takes any deletion for one of the front.
	for i := lo; i <= hi; i++ {
		if err := d.InmemStore.DeleteRange(i, i); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDB) Set(k, v []byte) error {
	if err := d.write("set " + string(k)); err != nil {
		return err
	}
	return d.InmemStore.Set(k, v)
}

func (d *fakeDB) SetUint64(k []byte, v uint64) error {
	if err := d.write("set " + string(k)); err != nil {
		return err
	}
	return d.InmemStore.SetUint64(k, v)
}

func (d *fakeDB) Close() error { return nil }

func TestVoteIsOneWrite(t *testing.T) {
	db := newFakeDB()
	open := func() *stableStore {
		s, err := openStableStore(newLogStore(db, time.Second, newFailure()))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	vote := func(s *stableStore) string {
		term, terr := s.GetUint64([]byte(keyVoteTerm))
		who, werr := s.Get([]byte(keyVoteCandidate))
		if (terr == nil) != (werr == nil) {
			t.Fatalf("term: %v, candidate: %v", terr, werr)
		}
		if terr != nil {
			return terr.Error()
		}
		return fmt.Sprintf("%d for %s", term, who)
	}

	s := open()
	if got := vote(s); got != "not found" { // the library compares this text
		t.Fatalf("vote at first: %s", got)
	}
	for _, step := range []error{
		s.SetUint64([]byte(keyCurrentTerm), 5),
		s.SetUint64([]byte(keyVoteTerm), 5),
		s.Set([]byte(keyVoteCandidate), []byte("1")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if got := vote(s); got != "5 for 1" {
		t.Errorf("vote: %s", got)
	}
	if got, want := db.writes, []string{"set CurrentTerm", "set Vote"}; !slices.Equal(got, want) {
		t.Errorf("writes %v, want %v", got, want)
	}
	if term, who := s.current(); term != 5 || who != "1" {
		t.Errorf("current: %d, %q", term, who)
	}

	// The process dies between the two parts of the next vote.
	if err := s.SetUint64([]byte(keyVoteTerm), 6); err != nil {
		t.Fatal(err)
	}
	if got := vote(open()); got != "5 for 1" {
		t.Errorf("vote after a crash in the middle: %s", got)
	}
	s = open()
	_ = s.SetUint64([]byte(keyVoteTerm), 6)
	_ = s.Set([]byte(keyVoteCandidate), []byte("2"))
	if got := vote(open()); got != "6 for 2" {
		t.Errorf("vote after a restart: %s", got)
	}
}

func TestTerm(t *testing.T) {
	db := newFakeDB()
	logs := newLogStore(db, time.Second, newFailure())
	s, err := openStableStore(logs)
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	s.onChange(func() { changes++ })
	for _, term := range []uint64{3, 3, 4} {
		if err := s.SetUint64([]byte(keyCurrentTerm), term); err != nil {
			t.Fatal(err)
		}
	}
	if len(db.writes) != 2 || changes != 2 {
		t.Errorf("%d writes, %d changes for two new terms", len(db.writes), changes)
	}
	if err := s.SetUint64([]byte(keyCurrentTerm), 3); err == nil || logs.fail.get() == nil {
		t.Errorf("term 3 after 4: %v", err)
	}
	if term, _ := s.GetUint64([]byte(keyCurrentTerm)); term != 4 {
		t.Errorf("term %d", term)
	}
}

// unguarded runs f as a goroutine of the library's, and tells whether it came back.
func unguarded(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return returned
}

func TestFailedWriteStops(t *testing.T) {
	db := newFakeDB()
	logs := newLogStore(db, time.Second, newFailure())
	logs.guarded.Store(true)
	db.err = errors.New("input/output error")
	if unguarded(func() { _ = logs.StoreLog(&raft.Log{Index: 1}) }) {
		t.Error("the library was told of a failed append")
	}
	if err := logs.fail.get(); !errors.Is(err, db.err) {
		t.Errorf("failure: %v", err)
	}
	// After a failed fsync, no write can be trusted.
	db.err = nil
	if unguarded(func() { _ = logs.StoreLog(&raft.Log{Index: 1}) }) {
		t.Error("an append went through after a failure")
	}
	if len(db.writes) != 1 {
		t.Errorf("writes %v", db.writes)
	}
}

func TestHangingWriteStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newFakeDB()
		db.hang = make(chan struct{})
		logs := newLogStore(db, 4*time.Second, newFailure())
		logs.guarded.Store(true)
		start := time.Now()
		if unguarded(func() { _ = logs.StoreLog(&raft.Log{Index: 1}) }) {
			t.Error("the library was told of a hanging append")
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if err := logs.fail.get(); err == nil || !strings.Contains(err.Error(), "hangs") {
			t.Errorf("failure: %v", err)
		}
		if !logs.hung.Load() {
			t.Error("Close would wait for the write")
		}
		close(db.hang)
	})
}

// A process that stood still finds time over that the disk has not had.
func TestWriteOutlivesStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, parts := make(chan error), make(chan time.Time, 1)
		parts <- time.Now()
		go func() {
			time.Sleep(time.Second)
			parts <- time.Now()
			done <- nil
		}()
		if err, ok := within(done, parts); err != nil || !ok {
			t.Errorf("the write was given up: %v", err)
		}
	})
}

func TestDeleteRanges(t *testing.T) {
	const c = deleteChunk
	for _, tt := range []struct {
		lo, hi    uint64
		backwards bool
		want      [][2]uint64
	}{
		{1, 0, false, nil},
		{1, 0, true, nil},
		{5, 5, false, [][2]uint64{{5, 5}}},
		{1, c, false, [][2]uint64{{1, c}}},
		{1, c + 1, false, [][2]uint64{{1, c}, {c + 1, c + 1}}},
		{1, c, true, [][2]uint64{{1, c}}},
		{1, c + 1, true, [][2]uint64{{2, c + 1}, {1, 1}}},
		{10, 2*c + 10, true, [][2]uint64{{c + 11, 2*c + 10}, {11, c + 10}, {10, 10}}},
	} {
		if got := deleteRanges(tt.lo, tt.hi, tt.backwards); !slices.Equal(got, tt.want) {
			t.Errorf("%d to %d, backwards %t: %v, want %v", tt.lo, tt.hi, tt.backwards, got, tt.want)
		}
	}
}

// TestDeleteLeavesNoHole deletes over Bolt, which is what the pieces are for.
func TestDeleteLeavesNoHole(t *testing.T) {
	const n = 3*deleteChunk + 7
	for _, tt := range []struct{ lo, hi, first, last uint64 }{
		{1, 2 * deleteChunk, 2*deleteChunk + 1, n},
		{0, 5, 6, n},
		{deleteChunk, n, 1, deleteChunk - 1},
		{deleteChunk, n + 100, 1, deleteChunk - 1},
		{1, n, 0, 0},
	} {
		db, err := openBolt(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var all []*raft.Log
		for i := range uint64(n) {
			all = append(all, &raft.Log{Index: i + 1, Term: 1})
		}
		if err := db.StoreLogs(all); err != nil {
			t.Fatal(err)
		}
		logs := newLogStore(db, time.Minute, newFailure())
		if err := logs.DeleteRange(tt.lo, tt.hi); err != nil {
			t.Error(err)
		}
		first, _ := logs.FirstIndex()
		last, _ := logs.LastIndex()
		if first != tt.first || last != tt.last {
			t.Errorf("after deleting %d to %d: %d to %d, want %d to %d", tt.lo, tt.hi, first, last, tt.first, tt.last)
		}
		_ = db.Close()
	}
}

func TestCompactBolt(t *testing.T) {
	dir := t.TempDir()
	db, err := openBolt(dir)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	// Without syncs, for the test's sake only.
	opts := boltOptions()
	fill, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, boltFile), BoltOptions: opts, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), 1<<20)
	const n = compactAbove/(1<<20) + 8
	for i := range uint64(n) {
		if err := fill.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill.DeleteRange(1, n-2); err != nil {
		t.Fatal(err)
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, boltFile))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	db, err = openBolt(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if after := size(); before < compactAbove || after > before/2 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	var entry raft.Log
	if err := db.GetLog(n-1, &entry); err != nil || !bytes.Equal(entry.Data, data) {
		t.Errorf("entry %d: %v", n-1, err)
	}
	if first, _ := db.FirstIndex(); first != n-1 {
		t.Errorf("first index %d", first)
	}
	if _, err := openBolt(dir); err == nil || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("a second opening: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.compact")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestPowerCut cuts the power at each point of Bolt's commits: between its two
// syncs any of the pages written may be on the disk, and the page that makes
// them count may be torn. What was committed before is there each time.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, boltFile)
	db, err := openBolt(dir)
	if err != nil {
		t.Fatal(err)
	}
	logs := newLogStore(db, time.Minute, newFailure())
	stable, err := openStableStore(logs)
	if err != nil {
		t.Fatal(err)
	}
	read := func() []byte {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	type truth struct {
		last, term uint64
		voted      string
	}
	state := func(db *raftboltdb.BoltStore) truth {
		last, err := db.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		s, err := openStableStore(newLogStore(db, time.Minute, newFailure()))
		if err != nil {
			t.Fatal(err)
		}
		term, _ := s.current()
		return truth{last, term, string(s.vote)}
	}
	images := 0
	check := func(raw []byte, allowed ...truth) {
		t.Helper()
		images++
		cut := t.TempDir()
		if err := os.WriteFile(filepath.Join(cut, boltFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := openBolt(cut)
		if err != nil {
			t.Fatalf("after a power cut: %v", err)
		}
		defer db.Close()
		if got := state(db); !slices.Contains(allowed, got) {
			t.Fatalf("after a power cut: %+v, want one of %+v", got, allowed)
		}
	}

	vote := func(term uint64) func() error {
		return func() error {
			return errors.Join(stable.SetUint64([]byte(keyVoteTerm), term), stable.Set([]byte(keyVoteCandidate), []byte("2")))
		}
	}
	var next uint64
	store := func(n int, size int) func() error {
		return func() error {
			var batch []*raft.Log
			for range n {
				next++
				batch = append(batch, &raft.Log{Index: next, Term: 1, Data: bytes.Repeat([]byte{byte(next)}, size)})
			}
			return logs.StoreLogs(batch)
		}
	}
	for i, commit := range []func() error{
		func() error { return stable.SetUint64([]byte(keyCurrentTerm), 1) }, vote(1),
		store(1, 10), store(3, 3000), store(1, 20000),
		func() error { return stable.SetUint64([]byte(keyCurrentTerm), 2) }, vote(2),
		func() error { return logs.DeleteRange(4, 5) },
		func() error { next = 3; return store(2, 100)() },
		func() error { return logs.DeleteRange(1, 3) },
		store(4, 5000),
	} {
		before, old := read(), state(db)
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		after, now := read(), state(db)
		// The file may have grown, which is synced before anything else.
		before = append(before, make([]byte, len(after)-len(before))...)
		page := os.Getpagesize()
		var changed []int
		meta := -1
		for at := 0; at < len(after); at += page {
			if bytes.Equal(before[at:at+page], after[at:at+page]) {
				continue
			}
			if at < 2*page {
				meta = at
				continue
			}
			changed = append(changed, at)
		}
		if meta < 0 {
			t.Fatalf("commit %d changed no meta page", i)
		}
		// Before the first sync: some of the pages.
		for n := range len(changed) + 1 {
			img := bytes.Clone(before)
			for _, at := range changed[:n] {
				copy(img[at:at+page], after[at:])
			}
			check(img, old)
			img = bytes.Clone(before)
			for _, at := range changed[len(changed)-n:] {
				copy(img[at:at+page], after[at:])
			}
			check(img, old)
		}
		// Between the syncs: all of them, and part of the meta page.
		img := bytes.Clone(after)
		copy(img[meta:meta+page], before[meta:])
		for _, n := range []int{0, 20, 40, 60, 72} {
			copy(img[meta:meta+n], after[meta:])
			check(img, old, now)
		}
		check(after, now)
	}
	_ = db.Close()
	t.Logf("%d images", images)
}

func TestPins(t *testing.T) {
	db := newFakeDB()
	logs := newLogStore(db, time.Second, newFailure())
	voters := []Voter{{ID: 1}, {ID: 2}}
	p, err := openPins(logs, voters)
	if err != nil {
		t.Fatal(err)
	}
	a, b := protocol.UUID{1}, protocol.UUID{2}
	if p.of(2) != protocol.ZeroUUID {
		t.Error("pinned before it was seen")
	}
	for range 2 {
		if err := p.check(peerID{2, a}); err != nil {
			t.Error(err)
		}
	}
	if len(db.writes) != 1 {
		t.Errorf("writes %v", db.writes)
	}
	again, err := openPins(logs, voters)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*pins{"at once": p, "after a restart": again} {
		if err := p.check(peerID{2, b}); err == nil {
			t.Errorf("%s: another directory was let in", name)
		}
		if err := p.check(peerID{2, protocol.ZeroUUID}); err == nil {
			t.Errorf("%s: no directory was let in", name)
		}
		if p.of(2) != a {
			t.Errorf("%s: pinned %s", name, p.of(2))
		}
	}
}

// TestEarly reads entries twice, as the library's start does, and each copy of
// an entry's bytes is given away once only.
func TestEarly(t *testing.T) {
	db := newFakeDB()
	for i := range uint64(3) {
		_ = db.InmemStore.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: []byte{byte(i)}})
	}
	logs := newLogStore(db, time.Second, newFailure())
	get := func(i uint64) *raft.Log {
		var l raft.Log
		if err := logs.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		return &l
	}
	logs.start()
	first := []*raft.Log{get(1), get(2), get(3)}
	logs.guarded.Store(true)
	for i, l := range first {
		if again := get(uint64(i + 1)); again.Index != l.Index || &again.Data[0] != &l.Data[0] {
			t.Errorf("entry %d was decoded twice", i+1)
		}
	}
	if logs.early.logs != nil || logs.early.size != 0 {
		t.Errorf("left: %+v", &logs.early.logs)
	}
	// What is deleted is forgotten.
	logs.start()
	get(2)
	logs.guarded.Store(true)
	if err := logs.DeleteRange(2, 3); err != nil {
		t.Fatal(err)
	}
	if err := logs.GetLog(2, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("a deleted entry: %v", err)
	}
	logs.start()
	for i := range uint64(4) {
		logs.early.keep(raft.Log{Index: i, Data: make([]byte, earlyBytes/3)})
	}
	if n := len(logs.early.logs); n != 2 {
		t.Errorf("%d entries kept", n)
	}
}
