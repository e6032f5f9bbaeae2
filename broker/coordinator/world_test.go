package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// sums is a machine of named sums. A record is a name and an amount.
type sums struct {
	log    []string // what was called, for tests to read
	byName map[string]uint64
	parked map[string]Token
	broken error // what a Then was told
}

type (
	add     struct{ name string } // adds 1, answers the sum
	get     struct{ name string }
	park    struct{ name string } // answered by free
	free    struct{ name string }
	alarm   struct{ after time.Duration } // adds 1 to "alarm" later
	many    struct{ n, size int }         // that many records of that size
	guarded struct{ size int }            // a record with a Then
)

func (m *sums) Replay(r Record) {
	if len(r.Value) == 8 {
		m.byName[string(r.Key)] += binary.BigEndian.Uint64(r.Value)
	}
}

func (m *sums) Loaded(time.Time) Outcome { return Outcome{} }

func one(name string) Record {
	return Record{Key: []byte(name), Value: binary.BigEndian.AppendUint64(nil, 1)}
}

func (m *sums) Handle(_ time.Time, to Token, event any) Outcome {
	m.log = append(m.log, fmt.Sprintf("%T", event))
	switch e := event.(type) {
	case add:
		return Outcome{Records: []Record{one(e.name)}, Replies: []Reply{{To: to, Answer: m.byName[e.name] + 1}}}
	case get:
		return Outcome{Replies: []Reply{{To: to, Answer: m.byName[e.name]}}}
	case park:
		m.parked[e.name] = to
	case free:
		return Outcome{Replies: []Reply{{To: m.parked[e.name], Answer: uint64(7)}, {To: to, Answer: uint64(0)}}}
	case alarm:
		return Outcome{Timers: []Timer{{Key: "a", After: e.after, Event: add{"alarm"}}}, Replies: []Reply{{To: to}}}
	case many:
		o := Outcome{Split: e.n > 1, Replies: []Reply{{To: to, Answer: uint64(e.n)}}}
		for range e.n {
			o.Records = append(o.Records, Record{Key: []byte("big"), Value: make([]byte, e.size)})
		}
		return o
	case guarded:
		return Outcome{
			Records: []Record{{Key: []byte("big"), Value: make([]byte, e.size)}},
			Then: func(err error) Outcome {
				m.broken = err
				return Outcome{Replies: []Reply{{To: to, Answer: uint64(1)}}}
			},
		}
	}
	return Outcome{}
}

// world is a coordinator of topic "state" on broker 1, over a file system in
// memory.
type world struct {
	t        *testing.T
	fs       vfs.FS
	manager  *replica.Manager
	image    *metadata.Image
	c        *Coordinator
	machines []*sums
	stop     context.CancelFunc
	done     chan struct{}
}

var stateID = protocol.UUID{1}

var nopLog = zerolog.Nop()

const maxBatch = 2000

func newWorld(t *testing.T, cfg Config) *world {
	w := &world{t: t, fs: vfs.NewMem(), image: metadata.Empty(), done: make(chan struct{})}
	log := zerolog.Nop()
	w.manager = replica.NewManager(replica.Config{
		Node: 1, Store: worldStore{w},
		TopicConfig: func(*metadata.Image, string) replica.TopicConfig {
			return replica.TopicConfig{Log: storage.DefaultLogConfig(), MinInSyncReplicas: 1, MaxMessageBytes: maxBatch}
		},
	}, log)
	cfg.Topic, cfg.Node = "state", 1
	cfg.NewMachine = func(int32) Machine {
		m := &sums{byName: map[string]uint64{}, parked: map[string]Token{}}
		w.machines = append(w.machines, m)
		return m
	}
	cfg.Partition = func(id protocol.UUID, partition int32) (Partition, bool) { return w.manager.Partition(id, partition) }
	w.c = New(cfg, log)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() {
		defer close(w.done)
		_ = w.c.Run(ctx)
	}()
	return w
}

func (w *world) end() {
	w.stop()
	<-w.done
}

func (w *world) apply(records ...record.Record) {
	w.t.Helper()
	delta := metadata.NewDelta(w.image)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.image = delta.Apply(w.image.Offset()+int64(len(records)), 1, 0)
	w.manager.Apply(delta, w.image)
	w.c.Apply(delta, w.image)
}

// topic creates the topic with one partition, led here.
func (w *world) topic(replicas ...protocol.NodeID) {
	w.t.Helper()
	w.apply(&record.Topic{Name: "state", TopicID: stateID},
		&record.Partition{TopicID: stateID, Replicas: replicas, ISR: replicas, Leader: 1})
}

func (w *world) lead(leader protocol.NodeID) {
	w.t.Helper()
	w.apply(&record.PartitionChange{TopicID: stateID, Leader: leader, LeaderRecovery: record.RecoveryUnchanged})
}

func (w *world) partition() *replica.Partition {
	p, ok := w.manager.Partition(stateID, 0)
	if !ok {
		w.t.Fatal("no partition")
	}
	return p
}

// answer waits for a call and says what came.
func answer(c *Call) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	v, err := c.Wait(ctx)
	if err != nil {
		return protocol.CodeOf(err).Error()
	}
	return fmt.Sprint(v)
}

// decided says what came of a call by now.
func decided(c *Call) string {
	select {
	case d := <-c.decided:
		c.decided <- d
		return answer(c)
	default:
		return "undecided"
	}
}

func (w *world) expect(event any, want string) {
	w.t.Helper()
	if got := answer(w.c.Submit(0, event)); got != want {
		w.t.Errorf("%T: got %s, want %s", event, got, want)
	}
}

// raw appends a batch as nobody of us would.
func (w *world) raw(b batch.Batch) {
	w.t.Helper()
	if _, err := w.partition().AppendAsLeader(b, true, storage.AppendOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

type worldStore struct{ w *world }

func (s worldStore) Open(tp protocol.TopicPartition, topicID, _ protocol.UUID, config *replica.TopicConfig) (replica.Log, int64, error) {
	path := "/" + tp.String()
	if err := s.w.fs.Mkdir(path); err != nil {
		return nil, 0, err
	}
	log, err := storage.OpenLog(s.w.fs, path, storage.LogOptions{Config: config.Log, TopicID: topicID})
	return log, 0, err
}

func (s worldStore) Configure(protocol.TopicPartition, *replica.TopicConfig) {}

func (s worldStore) Delete(tps ...protocol.TopicPartition) error {
	for _, tp := range tps {
		if err := s.w.fs.Rename("/"+tp.String(), "/"+strings.ToUpper(tp.String())); err != nil {
			return err
		}
	}
	return nil
}

func (s worldStore) SetAside(func(protocol.TopicPartition, protocol.UUID) bool) error { return nil }
