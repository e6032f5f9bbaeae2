package api

import (
	"context"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/controller"
	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// machine replays entries into an image.
type machine struct {
	image atomic.Pointer[metadata.Image]
	next  int64
}

func (m *machine) Image() *metadata.Image { return m.image.Load() }

func (m *machine) Apply(entries []raftlog.Entry) ([]int64, error) {
	var offsets []int64
	for _, e := range entries {
		b := batch.Batch(e.Data)
		offsets = append(offsets, m.next)
		b.SetBaseOffset(m.next)
		delta := metadata.NewDelta(m.image.Load())
		if err := record.Each(b, func(r record.Entry) error {
			if r.Control != nil {
				return nil
			}
			return delta.Replay(r.Record)
		}); err != nil {
			return nil, err
		}
		m.next = b.NextOffset()
		m.image.Store(delta.Apply(m.next-1, protocol.ControllerEpoch(e.Term), b.MaxTimestamp()))
	}
	return offsets, nil
}

func (m *machine) Snapshot() (raftlog.Snapshot, error)           { return nil, errors.New("none") }
func (m *machine) Restore(raftlog.SnapshotMeta, io.Reader) error { return errors.New("none") }

// node is the handlers in front of a controller over a memlog.
type node struct {
	t       *testing.T
	log     *memlog.Log
	machine *machine
	apis    map[int16]server.API
	applied []int64 // what Applied was asked to wait for
	level   logLevel
}

// logLevel is a process's log level.
type logLevel struct{ now zerolog.Level }

func (l *logLevel) Level() zerolog.Level         { return l.now }
func (l *logLevel) SetLevel(level zerolog.Level) { l.now = level }

func newNode(t *testing.T) *node {
	m := &machine{}
	m.image.Store(metadata.Empty())
	n := &node{t: t, machine: m, apis: map[int16]server.API{}}
	n.log = memlog.New(memlog.Config{NodeID: 1, StateMachine: m, FirstEntry: controller.FirstEntry(1, []protocol.NodeID{1}, nil)})
	registration := kmsg.NewPtrControllerRegistrationRequest()
	registration.ControllerID, registration.IncarnationID = 1, [16]byte{'c'}
	registration.Listeners = []kmsg.ControllerRegistrationRequestListener{{Name: "CONTROLLER", Host: "localhost", Port: 9093}}
	c := controller.New(controller.Config{
		Env:          decide.Env{ClusterID: "lkc", NodeID: 1, NumPartitions: 1, ReplicationFactor: 1, DeleteTopics: true},
		Registration: registration,
	}, n.log, m, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- n.log.Run(ctx) }()
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
	})
	for _, api := range APIs(Config{
		Controller: c, Log: zerolog.Nop(), Loggers: shared.Loggers{NodeID: 1, Level: &n.level},
		Applied: func(_ context.Context, offset int64) error {
			n.applied = append(n.applied, offset)
			return nil
		},
	}) {
		n.apis[api.Key] = api
	}
	return n
}

// do has a request answered as the server would, at once and until done.
func do[R kmsg.Response](n *node, req kmsg.Request) R {
	n.t.Helper()
	api, ok := n.apis[req.Key()]
	if !ok {
		n.t.Fatalf("%s is not served", kmsg.NameForKey(req.Key()))
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	a := api.Handle(ctx, &server.Request{
		Key: req.Key(), Version: req.GetVersion(), Body: req, Received: time.Now(),
		Conn: &server.Conn{Principal: server.Anonymous},
	})
	if a.Wait != nil {
		a = a.Wait(ctx)
	}
	resp, ok := a.Response.(R)
	if !ok {
		n.t.Fatalf("answer %+v", a)
	}
	return resp
}

// join registers broker 1, as soon as there is a controller, and unfences it.
func (n *node) join() int64 {
	n.t.Helper()
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.ClusterID, req.BrokerID, req.IncarnationID = 4, "lkc", 1, [16]byte{'a'}
	req.LogDirs = [][16]byte{{'D', 15: 1}}
	for _, r := range decide.DefaultFeatures() {
		f := r.(*record.FeatureLevel)
		req.Features = append(req.Features, kmsg.BrokerRegistrationRequestFeature{Name: f.Name, MaxSupportedVersion: f.Level})
	}
	resp := do[*kmsg.BrokerRegistrationResponse](n, req)
	for resp.ErrorCode == int16(protocol.ErrNotController) {
		resp = do[*kmsg.BrokerRegistrationResponse](n, req)
	}
	if resp.ErrorCode != 0 {
		n.t.Fatalf("registration: %v", protocol.Error(resp.ErrorCode))
	}
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, resp.BrokerEpoch, n.machine.Image().Offset()
	if r := do[*kmsg.BrokerHeartbeatResponse](n, beat); r.ErrorCode != 0 || r.IsFenced {
		n.t.Fatalf("heartbeat: %+v", r)
	}
	return resp.BrokerEpoch
}

func creation(version int16, name string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = version, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	return req
}

func TestServedAPIs(t *testing.T) {
	n := newNode(t)
	served := []kmsg.Key{
		kmsg.BrokerRegistration, kmsg.BrokerHeartbeat, kmsg.ControllerRegistration, kmsg.CreateTopics,
		kmsg.DeleteTopics, kmsg.AllocateProducerIDs, kmsg.Envelope, kmsg.DescribeQuorum, kmsg.UnregisterBroker,
		kmsg.CreatePartitions, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs, kmsg.UpdateFeatures,
		kmsg.AlterClientQuotas, kmsg.AlterUserSCRAMCredentials, kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.UnregisterController,
		kmsg.AlterPartition, kmsg.ElectLeaders, kmsg.AlterPartitionAssignments, kmsg.ListPartitionReassignments,
		kmsg.AssignReplicasToDirs,
	}
	for _, key := range served {
		api, ok := n.apis[key.Int16()]
		info, _ := protocol.API(key.Int16())
		if !ok || api.Min != info.Min || api.Max != info.Max || !info.On.Has(protocol.ControllerListener) {
			t.Errorf("%s: %+v, table %+v", key.Name(), api, info)
		}
	}
	if len(n.apis) != len(served) {
		t.Errorf("%d apis, want %d", len(n.apis), len(served))
	}
}

func TestBrokerLife(t *testing.T) {
	n := newNode(t)
	epoch := n.join()
	ids := do[*kmsg.AllocateProducerIDsResponse](n, &kmsg.AllocateProducerIDsRequest{BrokerID: 1, BrokerEpoch: epoch})
	if ids.ErrorCode != 0 || ids.ProducerIDStart != 0 || ids.ProducerIDLen != 1000 {
		t.Errorf("%+v", ids)
	}
	ids = do[*kmsg.AllocateProducerIDsResponse](n, &kmsg.AllocateProducerIDsRequest{BrokerID: 1, BrokerEpoch: epoch - 1})
	if ids.ErrorCode != int16(protocol.ErrStaleBrokerEpoch) {
		t.Errorf("%+v", ids)
	}
	if r := do[*kmsg.BrokerHeartbeatResponse](n, &kmsg.BrokerHeartbeatRequest{BrokerID: 2}); r.ErrorCode != int16(protocol.ErrStaleBrokerEpoch) {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.ControllerRegistrationResponse](n, &kmsg.ControllerRegistrationRequest{ControllerID: 2}); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.UnregisterBrokerResponse](n, &kmsg.UnregisterBrokerRequest{BrokerID: 7}); r.ErrorCode != int16(protocol.ErrBrokerIDNotRegistered) || r.ErrorMessage == nil {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.UnregisterBrokerResponse](n, &kmsg.UnregisterBrokerRequest{BrokerID: 1}); r.ErrorCode != 0 {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.BrokerHeartbeatResponse](n, &kmsg.BrokerHeartbeatRequest{BrokerID: 1, BrokerEpoch: epoch}); r.ErrorCode != int16(protocol.ErrStaleBrokerEpoch) {
		t.Errorf("%+v", r)
	}
}

func TestTopics(t *testing.T) {
	n := newNode(t)
	n.join()
	created := do[*kmsg.CreateTopicsResponse](n, creation(7, "a"))
	if created.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v", created)
	}
	if want := n.machine.Image().Offset(); len(n.applied) != 1 || n.applied[0] != want {
		t.Errorf("waited for %d to be acted on, want %d", n.applied, want)
	}
	if again := do[*kmsg.CreateTopicsResponse](n, creation(2, "a")); again.Topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) {
		t.Errorf("%+v", again)
	}
	if len(n.applied) != 1 {
		t.Error("waited for nothing")
	}
	gone := do[*kmsg.DeleteTopicsResponse](n, &kmsg.DeleteTopicsRequest{Version: 5, TimeoutMillis: 5000, TopicNames: []string{"a"}})
	if gone.Topics[0].ErrorCode != 0 || n.machine.Image().NumTopics() != 0 {
		t.Errorf("%+v", gone)
	}
}

// TestNoTimeIsTooLate: a timeout of 0 or less has passed already. Nothing is done
// and every topic is answered REQUEST_TIMED_OUT, whatever else is wrong with it.
func TestNoTimeIsTooLate(t *testing.T) {
	n := newNode(t)
	n.join()
	do[*kmsg.CreateTopicsResponse](n, creation(7, "there"))
	before := n.machine.Image()
	late := int16(protocol.ErrRequestTimedOut)
	for _, timeout := range []int32{0, -1, math.MinInt32} {
		for _, name := range []string{"new", "there", "bad name"} {
			req := creation(7, name)
			req.TimeoutMillis = timeout
			if r := do[*kmsg.CreateTopicsResponse](n, req); len(r.Topics) != 1 || r.Topics[0].ErrorCode != late || r.Topics[0].ErrorMessage != nil {
				t.Errorf("create %q within %d: %+v", name, timeout, r)
			}
			gone := do[*kmsg.DeleteTopicsResponse](n, &kmsg.DeleteTopicsRequest{Version: 5, TimeoutMillis: timeout, TopicNames: []string{name}})
			if len(gone.Topics) != 1 || gone.Topics[0].ErrorCode != late {
				t.Errorf("delete %q within %d: %+v", name, timeout, gone)
			}
			grown := do[*kmsg.CreatePartitionsResponse](n, &kmsg.CreatePartitionsRequest{
				Version: 3, TimeoutMillis: timeout, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 3}},
			})
			if len(grown.Topics) != 1 || grown.Topics[0].ErrorCode != late {
				t.Errorf("grow %q within %d: %+v", name, timeout, grown)
			}
		}
		reassign := &kmsg.AlterPartitionAssignmentsRequest{TimeoutMillis: timeout, Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{
			{Topic: "there", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}}},
		}}
		if r := do[*kmsg.AlterPartitionAssignmentsResponse](n, reassign); r.ErrorCode != late || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != late {
			t.Errorf("reassign within %d: %+v", timeout, r)
		}
		list := &kmsg.ListPartitionReassignmentsRequest{TimeoutMillis: timeout}
		if r := do[*kmsg.ListPartitionReassignmentsResponse](n, list); r.ErrorCode != 0 {
			t.Errorf("list reassignments within %d: %+v", timeout, r)
		}
		// UpdateFeatures carries a timeout that nobody looks at.
		update := kmsg.NewPtrUpdateFeaturesRequest()
		update.Version, update.TimeoutMillis, update.ValidateOnly = 2, timeout, true
		if r := do[*kmsg.UpdateFeaturesResponse](n, update); r.ErrorCode == late {
			t.Errorf("update features within %d: %+v", timeout, r)
		}
	}
	if n.machine.Image() != before {
		t.Error("something was done")
	}
}

// A node that does not lead says so in every answer.
func TestNotController(t *testing.T) {
	n := newNode(t)
	epoch := n.join()
	n.log.Depose(2)
	want := int16(protocol.ErrNotController)
	for range 2 { // the first may be in time to see the office end
		created := do[*kmsg.CreateTopicsResponse](n, creation(7, "a"))
		if len(created.Topics) != 1 || created.Topics[0].ErrorCode != want || created.Topics[0].Topic != "a" {
			t.Errorf("%+v", created)
		}
	}
	name := "a"
	gone := do[*kmsg.DeleteTopicsResponse](n, &kmsg.DeleteTopicsRequest{Version: 6, TimeoutMillis: 5000, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}})
	if len(gone.Topics) != 1 || gone.Topics[0].ErrorCode != want || *gone.Topics[0].Topic != "a" {
		t.Errorf("%+v", gone)
	}
	if gone = do[*kmsg.DeleteTopicsResponse](n, &kmsg.DeleteTopicsRequest{Version: 5, TimeoutMillis: 5000, TopicNames: []string{"a"}}); len(gone.Topics) != 1 || gone.Topics[0].ErrorCode != want {
		t.Errorf("%+v", gone)
	}
	if r := do[*kmsg.BrokerHeartbeatResponse](n, &kmsg.BrokerHeartbeatRequest{BrokerID: 1, BrokerEpoch: epoch}); r.ErrorCode != want {
		t.Errorf("%+v", r)
	}
	env := do[*kmsg.EnvelopeResponse](n, envelope(creation(7, "a")))
	if env.ErrorCode != want || env.ResponseData != nil {
		t.Errorf("%+v", env)
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: protocol.MetadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	if r := do[*kmsg.DescribeQuorumResponse](n, quorum); r.Topics[0].Partitions[0].ErrorCode != int16(protocol.ErrNotLeaderForPartition) {
		t.Errorf("%+v", r)
	}
	if r := do[*kmsg.EnvelopeResponse](n, envelope(quorum)); r.ErrorCode != want {
		t.Errorf("%+v", r)
	}
}

// envelope wraps a request as a broker does.
func envelope(req kmsg.Request) *kmsg.EnvelopeRequest {
	data := protocol.AppendRequestHeader(nil, req.Key(), req.GetVersion(), 77, "client")
	principal := kmsg.DefaultPrincipalData{Type: "User", Name: "alice"}
	env := kmsg.NewPtrEnvelopeRequest()
	env.RequestData = req.AppendTo(data)
	env.RequestPrincipal = principal.AppendTo(nil)
	env.ClientHostAddress = []byte{127, 0, 0, 1}
	return env
}

func TestEnvelope(t *testing.T) {
	n := newNode(t)
	n.join()
	for version := int16(2); version <= 7; version++ {
		req := creation(version, string(rune('a'+version)))
		env := do[*kmsg.EnvelopeResponse](n, envelope(req))
		if env.ErrorCode != 0 {
			t.Fatalf("v%d: %v", version, protocol.Error(env.ErrorCode))
		}
		id, body, err := protocol.ParseResponseHeader(env.ResponseData, req.Key(), version)
		resp := kmsg.CreateTopicsResponse{Version: version}
		if err != nil || id != 77 || resp.ReadFrom(body) != nil || resp.Topics[0].ErrorCode != 0 {
			t.Errorf("v%d: correlation id %d, %+v, %v", version, id, resp, err)
		}
	}
}

// What is wrong with an envelope is answered outside, with Kafka's codes, and
// spoils nothing.
func TestBadEnvelopes(t *testing.T) {
	n := newNode(t)
	n.join()
	good := func() *kmsg.EnvelopeRequest { return envelope(creation(7, "x")) }
	for name, tc := range map[string]struct {
		spoil func(*kmsg.EnvelopeRequest)
		want  protocol.Error
	}{
		"no address":       {func(e *kmsg.EnvelopeRequest) { e.ClientHostAddress = nil }, protocol.ErrInvalidRequest},
		"no principal":     {func(e *kmsg.EnvelopeRequest) { e.RequestPrincipal = nil }, protocol.ErrPrincipalDeserializationFailure},
		"newer principal":  {func(e *kmsg.EnvelopeRequest) { e.RequestPrincipal[1] = 1 }, protocol.ErrPrincipalDeserializationFailure},
		"nothing inside":   {func(e *kmsg.EnvelopeRequest) { e.RequestData = nil }, protocol.ErrUnsupportedVersion},
		"cut":              {func(e *kmsg.EnvelopeRequest) { e.RequestData = e.RequestData[:20] }, protocol.ErrUnsupportedVersion},
		"unknown key":      {func(e *kmsg.EnvelopeRequest) { e.RequestData[0] = 9 }, protocol.ErrUnsupportedVersion},
		"version too new":  {func(e *kmsg.EnvelopeRequest) { e.RequestData[3] = 8 }, protocol.ErrUnsupportedVersion},
		"not to forward":   {func(e *kmsg.EnvelopeRequest) { e.RequestData = envelope(&kmsg.BrokerHeartbeatRequest{}).RequestData }, protocol.ErrInvalidRequest},
		"another envelope": {func(e *kmsg.EnvelopeRequest) { e.RequestData = envelope(good()).RequestData }, protocol.ErrInvalidRequest},
		"too large":        {func(e *kmsg.EnvelopeRequest) { e.RequestData = make([]byte, maxForwarded+1) }, protocol.ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			env := good()
			tc.spoil(env)
			if resp := do[*kmsg.EnvelopeResponse](n, env); resp.ErrorCode != int16(tc.want) || resp.ResponseData != nil {
				t.Errorf("%v, want %v", protocol.Error(resp.ErrorCode), tc.want)
			}
		})
	}
	if n.machine.Image().NumTopics() != 0 {
		t.Error("a spoiled envelope created a topic")
	}
}

func FuzzEnvelope(f *testing.F) {
	good := envelope(creation(7, "x"))
	f.Add(good.RequestData, good.RequestPrincipal, good.ClientHostAddress)
	f.Add(envelope(&kmsg.DeleteTopicsRequest{Version: 1, TopicNames: []string{"a"}}).RequestData, []byte{0, 0, 2, 'U', 2, 'a', 0, 0}, make([]byte, 16))
	f.Add([]byte{0, 55, 0, 2}, []byte{}, []byte{1})
	h := &handlers{forwarded: map[int16]handler{
		int16(kmsg.CreateTopics): func(call) answer { return nil }, int16(kmsg.DeleteTopics): func(call) answer { return nil },
		int16(kmsg.DescribeQuorum): func(call) answer { return nil },
	}}
	f.Fuzz(func(t *testing.T, data, principal, host []byte) {
		env := kmsg.NewPtrEnvelopeRequest()
		env.RequestData, env.RequestPrincipal, env.ClientHostAddress = data, principal, host
		header, c, err := h.open(env, time.Time{})
		if err == nil && (c.body == nil || c.body.Key() != header.Key || c.body.GetVersion() != header.Version) {
			t.Errorf("header %+v with body %+v", header, c.body)
		}
	})
}

func TestDescribeQuorum(t *testing.T) {
	n := newNode(t)
	n.join()
	ask := func(topic string, partition int32) *kmsg.DescribeQuorumResponse {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 2
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: partition}}}}
		return do[*kmsg.DescribeQuorumResponse](n, req)
	}
	resp := ask(protocol.MetadataTopic, 0)
	p := resp.Topics[0].Partitions[0]
	end := n.machine.Image().Offset() + 1
	if p.LeaderID != 1 || p.LeaderEpoch != 1 || p.HighWatermark != end || len(p.CurrentVoters) != 1 || len(p.Observers) != 0 {
		t.Errorf("%+v", p)
	}
	if v := p.CurrentVoters[0]; v.ReplicaID != 1 || v.LogEndOffset != end || v.LastFetchTimestamp < 0 {
		t.Errorf("%+v", v)
	}
	if *resp.ErrorMessage != "" || *p.ErrorMessage != "" {
		t.Error("no error has the empty message in v2")
	}
	if len(resp.Nodes) != 1 || resp.Nodes[0].Listeners[0].Port != 9093 {
		t.Errorf("%+v", resp.Nodes)
	}
	for _, resp := range []*kmsg.DescribeQuorumResponse{ask(protocol.MetadataTopic, 1), ask("other", 0)} {
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != int16(protocol.ErrUnknownTopicOrPartition) || len(resp.Nodes) != 0 {
			t.Errorf("%+v", resp)
		}
	}
}

// A peer behind is shown to lack as many records as it lacks entries.
func TestReplicaStateOfLaggingPeer(t *testing.T) {
	status := raftlog.Status{LastIndex: 50}
	for _, tc := range []struct {
		acked uint64
		want  int64
	}{{50, 100}, {47, 97}, {0, 50}} {
		if got := replicaState(status, raftlog.Peer{AckedIndex: tc.acked}, 100).LogEndOffset; got != tc.want {
			t.Errorf("acked %d: %d, want %d", tc.acked, got, tc.want)
		}
	}
}
