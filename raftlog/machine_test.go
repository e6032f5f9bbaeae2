package raftlog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// machine is a state machine as metadata/replay is one: it skips what is
// stamped with another epoch than its entry's term, and gives offsets.
type machine struct {
	mu       sync.Mutex
	state    machineState
	seen     []raftlog.Entry // applied by this process, skipped ones too
	restored []uint64        // indexes of the snapshots restored
	changed  chan struct{}
	onApply  func(raftlog.Entry) error
}

// machineState is what a snapshot holds. Chain is a hash over all that was applied.
type machineState struct {
	Next  int64
	Chain [32]byte
}

func newMachine() *machine { return &machine{changed: make(chan struct{})} }

// entry makes the data of an entry: the epoch as its stamp, then the text.
func entry(epoch protocol.ControllerEpoch, text string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(epoch)), text...)
}

func firstEntry(epoch protocol.ControllerEpoch) []byte { return entry(epoch, "first") }

func (m *machine) Apply(entries []raftlog.Entry) ([]int64, error) {
	var out []int64
	for _, e := range entries {
		m.mu.Lock()
		hook := m.onApply
		m.mu.Unlock()
		if hook != nil {
			if err := hook(e); err != nil {
				return nil, err
			}
		}
		m.mu.Lock()
		offset := raftlog.Skipped
		if binary.BigEndian.Uint64(e.Data) == e.Term {
			offset = m.state.Next
			m.state.Next++
			m.state.Chain = sha256.Sum256(fmt.Appendf(m.state.Chain[:], "%d %d %x", e.Index, e.Term, e.Data))
		}
		out = append(out, offset)
		m.seen = append(m.seen, raftlog.Entry{Index: e.Index, Term: e.Term, Data: bytes.Clone(e.Data)})
		// The contract allows this, and nothing may notice.
		clear(e.Data)
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
	}
	return out, nil
}

func (m *machine) Snapshot() (raftlog.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return capture(m.state), nil
}

func (m *machine) Restore(meta raftlog.SnapshotMeta, r io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restored = append(m.restored, meta.Index)
	m.state = machineState{}
	return json.NewDecoder(r).Decode(&m.state)
}

func (m *machine) get() (machineState, []raftlog.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, slices.Clone(m.seen)
}

// texts are what was applied, without stamps.
func (m *machine) texts() []string {
	_, seen := m.get()
	var out []string
	for _, e := range seen {
		out = append(out, string(e.Data[8:]))
	}
	return out
}

// await waits until ok holds of the state.
func (m *machine) await(t *testing.T, what string, ok func(machineState) bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		m.mu.Lock()
		state, changed := m.state, m.changed
		m.mu.Unlock()
		if ok(state) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("waiting for %s: the machine is at %d", what, state.Next)
		}
	}
}

type capture machineState

func (c capture) WriteTo(w io.Writer) (int64, error) {
	raw, err := json.Marshal(machineState(c))
	if err != nil {
		return 0, err
	}
	n, err := w.Write(raw)
	return int64(n), err
}

func (c capture) Release() {}

// snapshots is a SnapshotStore in memory, newest first.
type snapshots struct {
	mu     sync.Mutex
	all    []snapshot
	broken error // of Open
}

type snapshot struct {
	meta raftlog.SnapshotMeta
	raw  []byte
}

type sink struct {
	owner *snapshots
	meta  raftlog.SnapshotMeta
	buf   bytes.Buffer
}

func (s *snapshots) Create(meta raftlog.SnapshotMeta) (raftlog.SnapshotSink, error) {
	meta.ID = fmt.Sprintf("%d-%d", meta.Index, meta.Term)
	return &sink{owner: s, meta: meta}, nil
}

func (s *snapshots) List() ([]raftlog.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []raftlog.SnapshotMeta
	for _, x := range s.all {
		out = append(out, x.meta)
	}
	return out, nil
}

func (s *snapshots) Open(id string) (raftlog.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return raftlog.SnapshotMeta{}, nil, s.broken
	}
	for _, x := range s.all {
		if x.meta.ID == id {
			return x.meta, io.NopCloser(bytes.NewReader(x.raw)), nil
		}
	}
	return raftlog.SnapshotMeta{}, nil, errors.New("no such snapshot")
}

func (s *sink) Write(p []byte) (int, error) { return s.buf.Write(p) }
func (s *sink) ID() string                  { return s.meta.ID }
func (s *sink) Cancel() error               { return nil }

func (s *sink) Close() error {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	s.meta.Size = int64(s.buf.Len())
	s.owner.all = append([]snapshot{{s.meta, s.buf.Bytes()}}, s.owner.all...)
	return nil
}

// running is a log with its Run.
type running struct {
	log  raftlog.Log
	stop context.CancelFunc
	done chan error
}

// run starts a log, and stops it at the end of the test if it still runs.
func run(t *testing.T, l raftlog.Log) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{log: l, stop: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- l.Run(ctx)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// end stops a log and returns Run's error.
func (r *running) end() error {
	r.stop()
	return <-r.done
}

// leading waits for a leadership that ok accepts.
func leading(t *testing.T, l raftlog.Log, what string, ok func(raftlog.Leadership) bool) raftlog.Leadership {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		cur, changed := l.Leadership()
		if ok(cur) {
			return cur
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("waiting for %s: leadership is %+v", what, cur)
		}
	}
}

func inOffice(l raftlog.Leadership) bool { return l.Leading }

// within is a context for what must not take long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
