package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// machine is what metadata/replay is, without files: it replays entries into an
// image, transactions at their end, and skips batches with another term's stamp.
type machine struct {
	image   atomic.Pointer[metadata.Image]
	next    int64
	open    bool
	delta   *metadata.Delta
	batches []string // the records of each batch, by name
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
		m.batches = append(m.batches, summary(names))
		m.next = b.NextOffset()
		if !m.open {
			m.image.Store(m.delta.Apply(m.next-1, protocol.ControllerEpoch(e.Term), b.MaxTimestamp()))
			m.delta = nil
		}
	}
	return offsets, nil
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
		MaxIdle: -1,
	}
}

func newWorld(t *testing.T, cfg Config) *world {
	m := newMachine()
	w := &world{t: t, machine: m}
	w.log = memlog.New(memlog.Config{NodeID: 1, StateMachine: m, FirstEntry: FirstEntry(1, []protocol.NodeID{1})})
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
	if got := w.machine.batches; !slices.Equal(got, want) {
		w.t.Fatalf("batches:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	w.machine.batches = nil
}

func registration(id int32, incarnation byte) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.ClusterID, req.BrokerID, req.IncarnationID, req.PreviousBrokerEpoch = "lkc", id, [16]byte{incarnation}, -1
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

func (w *world) create(partitions int32, names ...string) *Pending[Topics[*kmsg.CreateTopicsResponse]] {
	return w.c.CreateTopics(creation(partitions, names...), soon())
}

const bootstrapBatch = "BEGIN_TRANSACTION FEATURE_LEVEL×6 CONFIG END_TRANSACTION"

// A new cluster: LeaderChange, then the bootstrap records as one transaction,
// with what the office has to say itself behind them.
func TestFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Registration = kmsg.NewPtrControllerRegistrationRequest()
		cfg.Registration.ControllerID, cfg.Registration.IncarnationID = 1, [16]byte{'c'}
		w := newWorld(t, cfg)
		defer w.stop()
		w.check("LeaderChange", bootstrapBatch+" REGISTER_CONTROLLER")
		if got := w.machine.Image().Offset(); got != 10 {
			t.Errorf("offset %d, want 10", got)
		}
		if epoch := w.join(1, 'a'); epoch != 11 {
			t.Errorf("broker epoch %d, want the offset of its registration, 11", epoch)
		}
		w.check("REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE")

		// The same node leads again: nothing of it is written twice.
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		w.check("LeaderChange")
	})
}

// What arrives while a batch is in flight is decided together, each op on what
// the ones before it decided, and answered after the commit.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.batches = nil
		w.log.Hold()
		first := w.create(1, "a")
		synctest.Wait()
		second := w.create(2, "b")
		third := w.create(1, "b", "c")
		synctest.Wait()
		for _, p := range []*Pending[Topics[*kmsg.CreateTopicsResponse]]{first, second, third} {
			if len(p.op.done) != 0 {
				t.Fatal("answered before the commit")
			}
		}
		w.log.Commit()
		synctest.Wait()
		if len(first.op.done) != 1 || len(second.op.done) != 0 {
			t.Fatal("the commit of the first batch answers the first op alone")
		}
		w.log.Release()
		synctest.Wait()
		w.check("TOPIC PARTITION", "TOPIC PARTITION×2 TOPIC PARTITION")
		a, err := first.Wait(t.Context())
		if err != nil || a.Response.Topics[0].ErrorCode != 0 || a.Offset != w.machine.next-6 {
			t.Errorf("first: %+v, %v", a, err)
		}
		b, err := third.Wait(t.Context())
		if err != nil || b.Response.Topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) || b.Response.Topics[1].ErrorCode != 0 || b.Offset != w.machine.next-1 {
			t.Errorf("third: %+v, %v", b, err)
		}
	})
}

// An answer without records waits for the records that it saw: they may not get
// committed.
func TestRefusalWaitsForWhatItSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		blocker := w.create(1, "x")
		synctest.Wait()
		made, refused := w.create(1, "a"), w.create(1, "a")
		w.log.Commit()
		synctest.Wait()
		if len(blocker.op.done) != 1 || len(made.op.done)+len(refused.op.done) != 0 {
			t.Fatal("answered before the commit")
		}
		w.log.Depose(2)
		synctest.Wait()
		for _, p := range []*Pending[Topics[*kmsg.CreateTopicsResponse]]{made, refused} {
			if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
				t.Errorf("error %v, want NOT_CONTROLLER", err)
			}
		}
		w.log.Release()
		// Where nothing is under way, a refusal is answered at once.
		w.log.Lead()
		synctest.Wait()
		w.log.Hold()
		resp, err := w.create(0, "zero").Wait(t.Context())
		if err != nil || resp.Response.Topics[0].ErrorCode != int16(protocol.ErrInvalidPartitions) {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// Leadership is lost with a batch in flight and ops queued: all are told, and
// the next office starts from what was committed in the meantime.
func TestLostLeadership(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, testConfig())
				defer w.stop()
				w.join(1, 'a')
				w.log.Hold()
				inFlight := w.create(1, "a")
				synctest.Wait()
				queued := w.create(1, "b")
				w.log.Depose(2)
				synctest.Wait()
				late := w.create(1, "c")
				for _, p := range []*Pending[Topics[*kmsg.CreateTopicsResponse]]{inFlight, queued, late} {
					if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
						t.Errorf("error %v, want NOT_CONTROLLER", err)
					}
				}
				if committed {
					w.log.Release()
				} else {
					w.log.Forget()
					w.log.Release()
				}
				w.log.Lead()
				synctest.Wait()
				resp, err := w.create(1, "a").Wait(t.Context())
				if err != nil || (resp.Response.Topics[0].ErrorCode != 0) != committed {
					t.Errorf("create a: %+v, %v", resp.Response, err)
				}
				if resp, err = w.create(1, "b").Wait(t.Context()); err != nil || resp.Response.Topics[0].ErrorCode != 0 {
					t.Errorf("create b: %+v, %v", resp.Response, err)
				}
			})
		})
	}
}

// Nobody knows what became of a batch, and leadership stays: the office begins
// anew behind it.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.batches = nil
		w.log.Hold()
		lost := w.create(1, "a")
		synctest.Wait()
		w.log.Lose()
		if _, err := lost.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("error %v, want NOT_CONTROLLER", err)
		}
		w.log.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		resp, err := w.create(1, "a").Wait(t.Context())
		if err != nil || resp.Response.Topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) {
			t.Errorf("%+v, %v", resp.Response, err)
		}
		w.check("TOPIC PARTITION", "NO_OP")
	})
}

// A decision of an earlier epoch that gets committed late is skipped by all
// (invariant 11). The one of the machine here is tested with it.
func TestStaleBatchIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.log.Depose(2)
		w.log.Append(record.EncodeBatch([]record.Record{&record.Topic{Name: "old", TopicID: protocol.UUID{9}}}, 0, 1, 0))
		w.log.Lead()
		synctest.Wait()
		if _, ok := w.machine.Image().Topic("old"); ok {
			t.Error("a batch with an old stamp was applied")
		}
		w.join(1, 'a')
	})
}

// What must be atomic and does not fit a batch is a transaction; what stands
// before and behind it is outside.
func TestLargeCreationIsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.batches = nil
		w.log.Hold()
		w.create(1, "x")
		synctest.Wait()
		w.create(1, "y")
		names := make([]string, 4000)
		for i := range names {
			names[i] = fmt.Sprint("t", i)
		}
		large := w.create(2, names...)
		after := w.create(1, "z")
		w.log.Release()
		resp, err := large.Wait(t.Context())
		if err != nil || len(resp.Response.Topics) != 4000 || resp.Response.Topics[3999].ErrorCode != 0 {
			t.Fatalf("%d topics, %v", len(resp.Response.Topics), err)
		}
		if _, err := after.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := w.machine.batches
		if len(got) != 5 || got[1] != "TOPIC PARTITION" || !strings.HasPrefix(got[2], "BEGIN_TRANSACTION TOPIC ") ||
			!strings.HasSuffix(got[len(got)-2], " END_TRANSACTION") || got[len(got)-1] != "TOPIC PARTITION" {
			for _, b := range got {
				t.Logf("%.100s … %s", b, b[max(0, len(b)-40):])
			}
			t.Fatal("the creation is not a transaction by itself")
		}
		if n := w.machine.Image().NumTopics(); n != 4003 {
			t.Errorf("%d topics, want 4003", n)
		}
	})
}

// A transaction whose controller lost office half way is aborted by the next.
func TestUnfinishedTransactionIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.batches = nil
		w.log.Hold()
		names := make([]string, 4000)
		for i := range names {
			names[i] = fmt.Sprint("t", i)
		}
		large := w.create(2, names...)
		synctest.Wait()
		w.log.Commit() // the first batch
		synctest.Wait()
		w.log.Depose(2)
		synctest.Wait()
		if _, err := large.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("error %v, want NOT_CONTROLLER", err)
		}
		w.log.Forget() // the second
		w.log.Release()
		w.log.Lead()
		synctest.Wait()
		got := w.machine.batches
		if got[len(got)-1] != "ABORT_TRANSACTION" || w.machine.Image().NumTopics() != 0 {
			t.Errorf("last batch %.60s, %d topics", got[len(got)-1], w.machine.Image().NumTopics())
		}
		if _, err := w.create(1, "t1").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A record that no batch can hold is its sender's error, not the end of office.
func TestOversizedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		req := creation(1, "a")
		value := strings.Repeat("0:1,", 300_000) + "0:1"
		req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "leader.replication.throttled.replicas", Value: &value}}
		if _, err := w.c.CreateTopics(req, soon()).Wait(t.Context()); protocol.CodeOf(err) != protocol.ErrPolicyViolation {
			t.Errorf("error %v, want POLICY_VIOLATION", err)
		}
		if _, err := w.create(1, "a").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		one, two := w.join(1, 'a'), w.join(2, 'b')
		if _, err := w.create(4, "a").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.machine.batches = nil
		for range 3 {
			time.Sleep(3 * time.Second)
			if _, err := w.c.Heartbeat(beat(1, one, 0), soon()).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		w.check("PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE")
		if b, _ := w.machine.Image().Broker(2); !b.Fenced {
			t.Error("a silent broker is not fenced")
		}
		// It was only slow: its next heartbeat brings it back.
		resp, err := w.c.Heartbeat(beat(2, two, w.machine.Image().Offset()), soon()).Wait(t.Context())
		if err != nil || resp.IsFenced {
			t.Errorf("%+v, %v", resp, err)
		}
		// Both at once: the second decision sees the first one's result.
		w.machine.batches = nil
		time.Sleep(9 * time.Second)
		synctest.Wait()
		w.check("PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE")
	})
}

// A commit that takes longer than a session does not fence the brokers whose
// heartbeats wait behind it.
func TestSlowCommitFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		epoch := w.join(2, 'a')
		w.machine.batches = nil
		w.log.Hold()
		w.create(1, "a")
		var last *Pending[*kmsg.BrokerHeartbeatResponse]
		for range 6 {
			time.Sleep(3 * time.Second)
			last = w.c.Heartbeat(beat(2, epoch, 0), time.Now().Add(4*time.Second))
		}
		w.log.Release()
		if resp, err := last.Wait(t.Context()); err != nil || resp.IsFenced {
			t.Errorf("%+v, %v", resp, err)
		}
		synctest.Wait()
		w.check("TOPIC PARTITION")
	})
}

// A new office grants each broker a full session.
func TestTakeoverGrantsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(2, 'a')
		time.Sleep(8 * time.Second)
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if b, _ := w.machine.Image().Broker(2); b.Fenced {
			t.Error("fenced before its session was over")
		}
		// Another process with its id has to wait for the end of the session.
		if _, err := w.c.RegisterBroker(registration(2, 'z'), soon()).Wait(t.Context()); !errors.Is(err, protocol.ErrDuplicateBrokerRegistration) {
			t.Errorf("error %v, want DUPLICATE_BROKER_REGISTRATION", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if b, _ := w.machine.Image().Broker(2); !b.Fenced {
			t.Error("not fenced after its session was over")
		}
		if _, err := w.c.RegisterBroker(registration(2, 'z'), soon()).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A combined node comes back after kill -9: its own broker need not wait for
// the session of the one that died with the process.
func TestOwnBrokerReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		w.join(1, 'b')
		// Alive in this office: now somebody else may not.
		if _, err := w.c.RegisterBroker(registration(1, 'c'), soon()).Wait(t.Context()); !errors.Is(err, protocol.ErrDuplicateBrokerRegistration) {
			t.Errorf("error %v, want DUPLICATE_BROKER_REGISTRATION", err)
		}
	})
}

func TestControlledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		epoch := w.join(1, 'a')
		if _, err := w.create(1, "a").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.machine.batches = nil
		stop := func(offset int64) *kmsg.BrokerHeartbeatResponse {
			req := beat(1, epoch, offset)
			req.WantShutdown = true
			resp, err := w.c.Heartbeat(req, soon()).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		before := w.machine.Image().Offset()
		if stop(before).ShouldShutdown || stop(before+1).ShouldShutdown {
			t.Error("may stop before it has replayed the hand-over")
		}
		// The next controller asks for no more than that.
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		if stop(before + 1).ShouldShutdown {
			t.Error("may stop before it has replayed the hand-over")
		}
		if !stop(w.machine.Image().Offset()).ShouldShutdown {
			t.Error("may not stop")
		}
		w.check("BROKER_REGISTRATION_CHANGE PARTITION_CHANGE", "LeaderChange", "BROKER_REGISTRATION_CHANGE")
	})
}

func TestNoOps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxIdle = 0 // the default
		w := newWorld(t, cfg)
		defer w.stop()
		w.machine.batches = nil
		time.Sleep(1600 * time.Millisecond)
		synctest.Wait()
		w.check("NO_OP", "NO_OP", "NO_OP")
		// What is written anyway makes the next one later.
		time.Sleep(300 * time.Millisecond)
		w.join(1, 'a')
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		w.check("REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE")
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		inFlight := w.c.CreateTopics(creation(1, "a"), time.Now().Add(time.Second))
		synctest.Wait()
		queued := w.c.CreateTopics(creation(1, "b"), time.Now().Add(time.Second))
		if _, err := inFlight.Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
			t.Errorf("in flight: %v", err)
		}
		w.log.Release()
		synctest.Wait()
		if _, err := queued.Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
			t.Errorf("queued: %v", err)
		}
		img := w.machine.Image()
		_, a := img.Topic("a")
		_, b := img.Topic("b")
		if !a || b {
			t.Errorf("topic a %t, want true; topic b %t, want false: it was too late for a decision", a, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.create(1, "c").Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		w.create(1, "a")
		synctest.Wait()
		for range maxQueued {
			w.c.Heartbeat(beat(9, 9, 0), soon())
		}
		if _, err := w.create(1, "b").Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
			t.Errorf("error %v, want REQUEST_TIMED_OUT", err)
		}
		w.log.Release()
		synctest.Wait()
		if _, err := w.create(1, "b").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopAnswersEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		w.join(1, 'a')
		w.log.Hold()
		inFlight := w.create(1, "a")
		synctest.Wait()
		queued := w.create(1, "b")
		w.stop()
		late := w.create(1, "c")
		for _, p := range []*Pending[Topics[*kmsg.CreateTopicsResponse]]{inFlight, queued, late} {
			if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
				t.Errorf("error %v, want NOT_CONTROLLER", err)
			}
		}
	})
}
