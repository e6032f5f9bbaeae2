package api

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// dataWorld is the data path of broker 1 over a file system in memory: topics
// come and go by metadata records, requests are handled without a network.
type dataWorld struct {
	t       testing.TB
	fs      vfs.FS
	root    string
	manager *replica.Manager
	image   atomic.Pointer[metadata.Image]
	config  map[string]replica.TopicConfig
	wrap    func(replica.Log) replica.Log // what the partitions get in place of their logs

	catchUp func(context.Context) error // nil: there is nothing new

	produce     *Produce
	fetch       *Fetch
	listOffsets *ListOffsets
}

func newDataWorld(t testing.TB) *dataWorld {
	w := &dataWorld{
		t: t, fs: vfs.NewMem(), root: "/", config: map[string]replica.TopicConfig{},
		wrap: func(l replica.Log) replica.Log { return l },
	}
	w.start()
	return w
}

func (w *dataWorld) start() {
	log := zerolog.New(zerolog.NewTestWriter(w.t))
	w.image.Store(metadata.Empty())
	w.manager = replica.NewManager(replica.Config{
		Node: 1, Store: worldStore{w},
		TopicConfig: func(_ *metadata.Image, topic string) replica.TopicConfig { return w.config[topic] },
	}, log)
	w.produce = NewProduce(w, w.manager, log)
	w.fetch = NewFetch(FetchConfig{}, w, w.manager, log)
	w.listOffsets = NewListOffsets(w, w.manager, log)
	w.apply(&record.RegisterBroker{
		BrokerID: 2, BrokerEpoch: 1,
		Endpoints: []record.Endpoint{{Name: "PLAINTEXT", Host: "two", Port: 9092}},
	})
}

func (w *dataWorld) Image() *metadata.Image { return w.image.Load() }

func (w *dataWorld) CatchUp(ctx context.Context) error {
	if w.catchUp == nil {
		return nil
	}
	return w.catchUp(ctx)
}

// apply replays records and lets the replicas follow.
func (w *dataWorld) apply(records ...record.Record) {
	w.t.Helper()
	delta := metadata.NewDelta(w.Image())
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			w.t.Fatal(err)
		}
	}
	img := delta.Apply(w.Image().Offset()+int64(len(records)), 1, 0)
	w.image.Store(img)
	w.manager.Apply(delta, img)
}

// worldTopicID makes an id of a topic's name and generation.
func worldTopicID(name string, generation byte) protocol.UUID {
	id := protocol.UUID{15: generation}
	copy(id[:14], name)
	return id
}

// topic creates a topic of one generation, led by broker 1 with epoch 0.
func (w *dataWorld) topic(name string, generation byte, partitions int, replicas ...protocol.NodeID) protocol.UUID {
	w.t.Helper()
	if _, ok := w.config[name]; !ok {
		w.config[name] = worldConfig()
	}
	if len(replicas) == 0 {
		replicas = []protocol.NodeID{1}
	}
	id := worldTopicID(name, generation)
	records := []record.Record{&record.Topic{Name: name, TopicID: id}}
	for i := range partitions {
		records = append(records, &record.Partition{
			TopicID: id, PartitionID: int32(i), Replicas: replicas, ISR: replicas, Leader: 1,
		})
	}
	w.apply(records...)
	return id
}

// lead changes the leader of partition 0.
func (w *dataWorld) lead(id protocol.UUID, leader protocol.NodeID) {
	w.t.Helper()
	w.apply(&record.PartitionChange{TopicID: id, Leader: leader, LeaderRecovery: record.RecoveryUnchanged})
}

func (w *dataWorld) partition(id protocol.UUID) *replica.Partition {
	w.t.Helper()
	p, ok := w.manager.Partition(id, 0)
	if !ok {
		w.t.Fatalf("no partition of %s", id)
	}
	return p
}

// worldConfig is Kafka's default.
func worldConfig() replica.TopicConfig {
	return replica.TopicConfig{
		Log: storage.DefaultLogConfig(), MinInSyncReplicas: 1, MaxMessageBytes: 1048588,
		TimestampBeforeMs: 1<<63 - 1, TimestampAfterMs: time.Hour.Milliseconds(),
	}
}

// worldStore opens logs one by one.
type worldStore struct{ w *dataWorld }

func (s worldStore) path(tp protocol.TopicPartition) string { return s.w.root + "/" + tp.String() }

func (s worldStore) Open(tp protocol.TopicPartition, topicID, _ protocol.UUID, config *replica.TopicConfig) (replica.Log, int64, error) {
	if err := s.w.fs.Mkdir(s.path(tp)); err != nil {
		return nil, 0, err
	}
	log, err := storage.OpenLog(s.w.fs, s.path(tp), storage.LogOptions{Config: config.Log, TopicID: topicID})
	if err != nil {
		return nil, 0, err
	}
	return s.w.wrap(log), 0, nil
}

func (s worldStore) Configure(protocol.TopicPartition, *replica.TopicConfig) {}

func (s worldStore) Delete(tps ...protocol.TopicPartition) error {
	for _, tp := range tps {
		if err := s.w.fs.Rename(s.path(tp), s.path(tp)+".deleted"); err != nil {
			return err
		}
	}
	return nil
}

func (s worldStore) SetAside(func(protocol.TopicPartition, protocol.UUID) bool) error { return nil }

// request wraps a body as the server does, encoded and decoded again, so that
// what the body aliases is a frame.
func (w *dataWorld) request(body kmsg.Request) *server.Request {
	w.t.Helper()
	frame := body.AppendTo(nil)
	decoded := kmsg.RequestForKey(body.Key())
	decoded.SetVersion(body.GetVersion())
	if err := decoded.ReadFrom(frame); err != nil {
		w.t.Fatal(err)
	}
	return &server.Request{
		Key: body.Key(), Version: body.GetVersion(), Body: decoded, Received: time.Now(),
		Conn: &server.Conn{Listener: "PLAINTEXT"},
	}
}

func (w *dataWorld) handler(body kmsg.Request) server.Handler {
	switch body.(type) {
	case *kmsg.ProduceRequest:
		return w.produce.Handle
	case *kmsg.FetchRequest:
		return w.fetch.Handle
	case *kmsg.DeleteRecordsRequest:
		return NewDeleteRecords(w, w.manager, zerolog.Nop()).Handle
	case *kmsg.OffsetForLeaderEpochRequest:
		return NewOffsetForLeaderEpoch(w, w.manager, zerolog.Nop()).Handle
	case *kmsg.DescribeProducersRequest:
		return NewDescribeProducers(w, w.manager).Handle
	}
	return w.listOffsets.Handle
}

// complete waits for an answer that waits.
func complete(ctx context.Context, a server.Answer) server.Answer {
	for a.Wait != nil {
		a = a.Wait(ctx)
	}
	return a
}

// ask handles a request and returns the answer as the client decodes it.
func (w *dataWorld) ask(body kmsg.Request) kmsg.Response {
	w.t.Helper()
	a := complete(w.t.Context(), w.handler(body)(w.t.Context(), w.request(body)))
	resp, err := decodeAnswer(body, a)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func decodeAnswer(body kmsg.Request, a server.Answer) (kmsg.Response, error) {
	var wire []byte
	switch {
	case a.Response != nil:
		a.Response.SetVersion(body.GetVersion())
		wire = a.Response.AppendTo(nil)
	case a.Parts != nil:
		wire = joinParts(a.Parts)
	default:
		return nil, fmt.Errorf("no response: none %v, close %v", a.None, a.Close)
	}
	resp := body.ResponseKind()
	resp.SetVersion(body.GetVersion())
	return resp, resp.ReadFrom(wire)
}

// plainBatch is a batch of so many records.
func plainBatch(records int) []byte { return builtBatch(records, batch.Options{}) }

func builtBatch(records int, opts batch.Options) []byte {
	b := batch.NewBuilder(opts)
	now := time.Now().UnixMilli() // once, so that equal batches have equal sizes
	for i := range records {
		b.Append(batch.Record{Key: []byte("key"), Value: []byte("value"), Timestamp: now + int64(i)})
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return bytes.Clone(built)
}

// produceRequest is a request for partition 0 of a topic.
func produceRequest(version, acks int16, topic string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, worldTopicID(topic, 1)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// mustProduce appends so many records to partition 0.
func (w *dataWorld) mustProduce(topic string, records int) {
	w.t.Helper()
	resp := w.ask(produceRequest(9, acksOne, topic, plainBatch(records))).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		w.t.Fatalf("produce: error %d", code)
	}
}

// fetchRequest is a fetch of partition 0 of a topic.
func fetchRequest(version int16, topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = version, 1<<20, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, worldTopicID(topic, 1)
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
