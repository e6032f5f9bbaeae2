package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// machine is what metadata/replay is, without files: it replays entries into an
// image, transactions at their end, and skips batches with another term's stamp.
type machine struct {
	image  atomic.Pointer[metadata.Image]
	quorum atomic.Pointer[snapshot.Quorum] // what control records say
	next   int64
	open   bool
	delta  *metadata.Delta

	mu      sync.Mutex
	batches []string // the records of each batch, by name, since the last take
}

// take returns the batches since the last take.
func (m *machine) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.batches
	m.batches = nil
	return taken
}

func newMachine() *machine {
	m := &machine{}
	m.image.Store(metadata.Empty())
	return m
}

func (m *machine) Image() *metadata.Image { return m.image.Load() }

func (m *machine) Apply(entries []raftlog.Entry) ([]int64, error) {
	offsets := make([]int64, len(entries))
	for i, e := range entries {
		b := batch.Batch(e.Data)
		if uint64(b.LeaderEpoch()) != e.Term {
			offsets[i] = raftlog.Skipped
			continue
		}
		offsets[i] = m.next
		b.SetBaseOffset(m.next)
		if m.delta == nil {
			m.delta = metadata.NewDelta(m.image.Load())
		}
		var names []string
		if err := record.Each(b, func(r record.Entry) error {
			if r.Control != nil {
				names = append(names, record.ControlName(r.Control))
				m.control(r.Control)
				return nil
			}
			names = append(names, record.Name(r.Record))
			switch r.Record.(type) {
			case *record.BeginTransaction:
				m.open = true
			case *record.EndTransaction:
				m.open = false
			case *record.AbortTransaction:
				m.open = false
				m.delta = metadata.NewDelta(m.image.Load())
			}
			return m.delta.Replay(r.Record)
		}); err != nil {
			return nil, err
		}
		m.mu.Lock()
		m.batches = append(m.batches, summary(names))
		m.mu.Unlock()
		m.next = b.NextOffset()
		if !m.open {
			m.image.Store(m.delta.Apply(m.next-1, protocol.ControllerEpoch(e.Term), b.MaxTimestamp()))
			m.delta = nil
		}
	}
	return offsets, nil
}

func (m *machine) control(c record.Control) {
	var quorum snapshot.Quorum
	if known := m.quorum.Load(); known != nil {
		quorum = *known
	}
	switch c := c.(type) {
	case *record.KRaftVersion:
		quorum.Version = c.Version
	case *record.Voters:
		quorum.Voters = c
	}
	m.quorum.Store(&quorum)
}

// summary shortens runs: PARTITION_RECORD×3.
func summary(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		j := i
		for j < len(names) && names[j] == names[i] {
			j++
		}
		name := strings.TrimSuffix(names[i], "_RECORD")
		if j-i > 1 {
			name = fmt.Sprintf("%s×%d", name, j-i)
		}
		out = append(out, name)
		i = j
	}
	return strings.Join(out, " ")
}

func (m *machine) Snapshot() (raftlog.Snapshot, error)           { return nil, errors.New("no snapshots here") }
func (m *machine) Restore(raftlog.SnapshotMeta, io.Reader) error { return errors.New("nor there") }

// world is a controller in office over a memlog, in a synctest bubble.
type world struct {
	t       *testing.T
	log     *memlog.Log
	machine *machine
	c       *Controller
	stop    func()
}

func testConfig() Config {
	return Config{
		Env: decide.Env{
			ClusterID: "lkc", NodeID: 1, NumPartitions: 1, ReplicationFactor: 1, DeleteTopics: true,
		},
	}
}

func newWorld(t *testing.T, cfg Config) *world { return newWorldOn(t, cfg, newMachine()) }

func newWorldOn(t *testing.T, cfg Config, m *machine) *world {
	w := &world{t: t, machine: m}
	w.log = memlog.New(memlog.Config{NodeID: 1, StateMachine: m, FirstEntry: FirstEntry(1, []protocol.NodeID{1}, nil)})
	w.c = New(cfg, w.log, m, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() {
		if err := w.log.Run(ctx); err != nil {
			t.Errorf("log: %v", err)
		}
		done <- struct{}{}
	}()
	go func() {
		if err := w.c.Run(ctx); err != nil {
			t.Errorf("controller: %v", err)
		}
		done <- struct{}{}
	}()
	w.stop = func() {
		cancel()
		<-done
		<-done
	}
	synctest.Wait()
	return w
}

func (w *world) check(want ...string) {
	w.t.Helper()
	if got := w.machine.take(); !slices.Equal(got, want) {
		w.t.Fatalf("batches:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func registration(id int32, incarnation byte) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.ClusterID, req.BrokerID, req.IncarnationID, req.PreviousBrokerEpoch = 4, "lkc", id, [16]byte{incarnation}, -1
	req.LogDirs = [][16]byte{{'D', byte(id), 15: 1}}
	for _, r := range decide.DefaultFeatures() {
		f := r.(*record.FeatureLevel)
		req.Features = append(req.Features, kmsg.BrokerRegistrationRequestFeature{Name: f.Name, MaxSupportedVersion: f.Level})
	}
	return req
}

func beat(id int32, epoch protocol.BrokerEpoch, offset int64) *kmsg.BrokerHeartbeatRequest {
	return &kmsg.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: int64(epoch), CurrentMetadataOffset: offset}
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

// join registers and unfences a broker.
func (w *world) join(id int32, incarnation byte) protocol.BrokerEpoch {
	w.t.Helper()
	epoch, err := w.c.RegisterBroker(registration(id, incarnation), soon()).Wait(w.t.Context())
	if err != nil {
		w.t.Fatalf("register %d: %v", id, err)
	}
	resp, err := w.c.Heartbeat(beat(id, epoch, w.machine.Image().Offset()), soon()).Wait(w.t.Context())
	if err != nil || resp.IsFenced {
		w.t.Fatalf("heartbeat of %d: %+v, %v", id, resp, err)
	}
	return epoch
}

func creation(partitions int32, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (w *world) create(partitions int32, names ...string) *Pending[Change[*kmsg.CreateTopicsResponse]] {
	return w.c.CreateTopics(creation(partitions, names...), "", soon())
}
