package api

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// groupWorld is the groups of broker 1, down to the log.
type groupWorld struct {
	*dataWorld
	shards   *coordinator.Coordinator
	handlers map[int16]server.Handler
}

func newGroupWorld(t testing.TB) (w *groupWorld, end func()) {
	w = &groupWorld{dataWorld: newDataWorld(t), handlers: map[int16]server.Handler{}}
	w.shards = coordinator.New(coordinator.Config{
		Topic: protocol.OffsetsTopic, Node: 1,
		NewMachine: func(int32) coordinator.Machine {
			return group.NewMachine(group.Config{
				MinSessionTimeout: time.Second, MaxSessionTimeout: time.Hour, MaxSize: 100, MaxMetadataBytes: 4096,
				Retention: time.Hour, RetentionCheck: time.Hour,
			}, zerolog.Nop())
		},
		Partition: func(id protocol.UUID, partition int32) (coordinator.Partition, bool) {
			return w.manager.Partition(id, partition)
		},
	}, zerolog.Nop())
	for _, api := range NewGroups(w, w.shards, zerolog.Nop()).APIs() {
		w.handlers[api.Key] = api.Handle
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.shards.Run(ctx)
	}()
	return w, func() { cancel(); <-done }
}

// coordinate creates __consumer_offsets, led here.
func (w *groupWorld) coordinate(partitions int) {
	w.t.Helper()
	before := w.Image()
	w.topic(protocol.OffsetsTopic, 1, partitions)
	// The world applies to the replicas alone: tell the shards the same.
	delta := metadata.NewDelta(before)
	id := worldTopicID(protocol.OffsetsTopic, 1)
	records := []record.Record{&record.Topic{Name: protocol.OffsetsTopic, TopicID: id}}
	for i := range partitions {
		records = append(records, &record.Partition{TopicID: id, PartitionID: int32(i), Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Leader: 1})
	}
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.shards.Apply(delta, w.Image())
	synctest.Wait()
}

// start handles a request and returns where its answer will be. What the request
// aliases is overwritten meanwhile, as the server's frame is.
func (w *groupWorld) start(body kmsg.Request) <-chan kmsg.Response {
	w.t.Helper()
	frame := body.AppendTo(nil)
	decoded := kmsg.RequestForKey(body.Key())
	decoded.SetVersion(body.GetVersion())
	if err := decoded.ReadFrom(frame); err != nil {
		w.t.Fatal(err)
	}
	a := w.handlers[body.Key()](w.t.Context(), &server.Request{
		Key: body.Key(), Version: body.GetVersion(), Body: decoded, Received: time.Now(), ClientID: "c",
		Conn: &server.Conn{Listener: "PLAINTEXT", RemoteAddr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}},
	})
	clear(frame)
	answered := make(chan kmsg.Response, 1)
	go func() {
		resp, err := decodeAnswer(body, complete(w.t.Context(), a))
		if err != nil {
			w.t.Error(err)
		}
		answered <- resp
	}()
	synctest.Wait()
	return answered
}

func (w *groupWorld) do(body kmsg.Request) kmsg.Response { return <-w.start(body) }

func (w *groupWorld) joinRequest(version int16, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = version, "g", member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte("metadata")
	req.Protocols = append(req.Protocols, p)
	return req
}

// A group's life, from the requests of a client down to the log, in the oldest
// and the newest versions.
func TestGroups(t *testing.T) {
	for _, version := range []int16{0, 9} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := newGroupWorld(t)
				defer end()
				w.coordinate(3)
				newest := version > 0
				join := w.joinRequest(version, "")
				joined := w.do(join).(*kmsg.JoinGroupResponse)
				if newest {
					if joined.ErrorCode != int16(protocol.ErrMemberIDRequired) || joined.MemberID == "" {
						t.Fatalf("first join: %+v", joined)
					}
					joined = w.do(w.joinRequest(version, joined.MemberID)).(*kmsg.JoinGroupResponse)
				}
				member := joined.MemberID
				if joined.ErrorCode != 0 || joined.LeaderID != member || len(joined.Members) != 1 || string(joined.Members[0].ProtocolMetadata) != "metadata" {
					t.Fatalf("join: %+v", joined)
				}
				sync := kmsg.NewPtrSyncGroupRequest()
				sync.Group, sync.MemberID, sync.Generation = "g", member, 1
				kind, name := "consumer", "range"
				sync.ProtocolType, sync.Protocol = &kind, &name
				part := kmsg.NewSyncGroupRequestGroupAssignment()
				part.MemberID, part.MemberAssignment = member, []byte("assignment")
				sync.GroupAssignment = append(sync.GroupAssignment, part)
				if newest {
					sync.Version = 5
				}
				if synced := w.do(sync).(*kmsg.SyncGroupResponse); synced.ErrorCode != 0 || string(synced.MemberAssignment) != "assignment" {
					t.Fatalf("sync: %+v", synced)
				}
				describe := kmsg.NewPtrDescribeGroupsRequest()
				describe.Groups = []string{"g", "none"}
				if newest {
					describe.Version, describe.IncludeAuthorizedOperations = 6, true
				}
				d := w.do(describe).(*kmsg.DescribeGroupsResponse)
				if got := d.Groups[0]; got.State != "Stable" || got.Members[0].ClientHost != "/10.0.0.1" || string(got.Members[0].MemberAssignment) != "assignment" {
					t.Errorf("describe: %+v", got)
				}
				if got := d.Groups[1]; got.State != "Dead" || (got.ErrorCode != 0) != newest {
					t.Errorf("describe nobody: %+v", got)
				}
				list := kmsg.NewPtrListGroupsRequest()
				if l := w.do(list).(*kmsg.ListGroupsResponse); len(l.Groups) != 1 || l.Groups[0].Group != "g" {
					t.Errorf("list: %+v", l)
				}
				remove := kmsg.NewPtrDeleteGroupsRequest()
				remove.Groups = []string{"g", "g", "none"}
				if r := w.do(remove).(*kmsg.DeleteGroupsResponse); len(r.Groups) != 2 || r.Groups[0].ErrorCode != int16(protocol.ErrNonEmptyGroup) || r.Groups[1].ErrorCode != int16(protocol.ErrGroupIDNotFound) {
					t.Errorf("delete: %+v", r)
				}
				heartbeat := kmsg.NewPtrHeartbeatRequest()
				heartbeat.Group, heartbeat.MemberID, heartbeat.Generation = "g", member, 1
				if b := w.do(heartbeat).(*kmsg.HeartbeatResponse); b.ErrorCode != 0 {
					t.Errorf("heartbeat: %+v", b)
				}
				// A second member's join is parked until the first one joins again.
				second := w.start(w.joinRequest(0, ""))
				if len(second) != 0 {
					t.Fatal("joined at once")
				}
				leave := kmsg.NewPtrLeaveGroupRequest()
				leave.Group, leave.MemberID = "g", member
				if newest {
					leave.Version = 5
					leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
				}
				if l := w.do(leave).(*kmsg.LeaveGroupResponse); l.ErrorCode != 0 {
					t.Errorf("leave: %+v", l)
				}
				if l := w.do(leave).(*kmsg.LeaveGroupResponse); !newest && l.ErrorCode != int16(protocol.ErrUnknownMemberID) ||
					newest && (l.ErrorCode != 0 || l.Members[0].ErrorCode != int16(protocol.ErrUnknownMemberID)) {
					t.Errorf("leave again: %+v", l)
				}
				synctest.Wait()
				if got := (<-second).(*kmsg.JoinGroupResponse); got.ErrorCode != 0 || got.Generation != 2 {
					t.Errorf("second join: %+v", got)
				}
			})
		})
	}
}

func commitRequest(version int16, topic string, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = version, "g"
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, worldTopicID(topic, 1)
	for _, p := range partitions {
		r := kmsg.NewOffsetCommitRequestTopicPartition()
		r.Partition, r.Offset = p, 100+int64(p)
		t.Partitions = append(t.Partitions, r)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func codes(resp *kmsg.OffsetCommitResponse) (out []protocol.Error) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out = append(out, protocol.Error(p.ErrorCode))
		}
	}
	return out
}

// Offsets are committed for partitions that exist, and read by name and by id.
func TestGroupOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, end := newGroupWorld(t)
		defer end()
		w.topic("a", 1, 2)
		commit := func(req *kmsg.OffsetCommitRequest, want ...protocol.Error) {
			t.Helper()
			if got := codes(w.do(req).(*kmsg.OffsetCommitResponse)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("v%d: got %v, want %v", req.Version, got, want)
			}
		}
		commit(commitRequest(9, "a", 0), protocol.ErrNotCoordinator)
		commit(commitRequest(9, "none", 0), protocol.ErrUnknownTopicOrPartition)
		w.coordinate(3)
		for version := int16(2); version <= 10; version++ {
			commit(commitRequest(version, "a", 0, 5, 1), protocol.None, protocol.ErrUnknownTopicOrPartition, protocol.None)
		}
		commit(commitRequest(10, "none", 0), protocol.ErrUnknownTopicID)
		stale := commitRequest(9, "a", 0, 5)
		stale.Generation, stale.MemberID = 3, "m"
		commit(stale, protocol.ErrUnknownMemberID, protocol.ErrUnknownTopicOrPartition)

		for version := int16(1); version <= 10; version++ {
			for _, all := range []bool{false, true} {
				if all && version < 2 {
					continue
				}
				req := kmsg.NewPtrOffsetFetchRequest()
				req.Version, req.Group = version, "g"
				g := kmsg.NewOffsetFetchRequestGroup()
				g.Group = "g"
				if !all {
					req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{0, 1, 9}}}
					g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a", TopicID: worldTopicID("a", 1), Partitions: []int32{0, 1, 9}}}
				}
				req.Groups = append(req.Groups, g)
				resp := w.do(req).(*kmsg.OffsetFetchResponse)
				var got []int64
				if version >= 8 {
					for _, topic := range resp.Groups[0].Topics {
						if (topic.TopicID == worldTopicID("a", 1)) != (version >= 10) || (topic.Topic == "a") != (version < 10) {
							t.Errorf("v%d: topic %q %v", version, topic.Topic, topic.TopicID)
						}
						for _, p := range topic.Partitions {
							got = append(got, p.Offset)
						}
					}
				} else {
					for _, p := range resp.Topics[0].Partitions {
						got = append(got, p.Offset)
					}
				}
				want := "[100 101 -1]"
				if all {
					want = "[100 101]"
				}
				if fmt.Sprint(got) != want {
					t.Errorf("v%d, all %v: got %v, want %s", version, all, got, want)
				}
			}
		}
		remove := kmsg.NewPtrOffsetDeleteRequest()
		remove.Group = "g"
		remove.Topics = []kmsg.OffsetDeleteRequestTopic{
			{Topic: "a", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 7}}},
			{Topic: "none", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}},
			{Topic: "a", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}}},
		}
		d := w.do(remove).(*kmsg.OffsetDeleteResponse)
		if got := fmt.Sprint(d.ErrorCode, d.Topics); got != "0 [{a [{0 0} {7 3} {1 0}]} {none [{0 3}]}]" {
			t.Errorf("delete: %s", got)
		}
		remove.Group = "none"
		if d := w.do(remove).(*kmsg.OffsetDeleteResponse); d.ErrorCode != int16(protocol.ErrGroupIDNotFound) || len(d.Topics) > 0 {
			t.Errorf("delete of nobody's: %+v", d)
		}
	})
}

// Where this broker is not the coordinator, each API says so in its way.
func TestNotCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, end := newGroupWorld(t)
		defer end()
		not := int16(protocol.ErrNotCoordinator)
		if r := w.do(w.joinRequest(9, "m")).(*kmsg.JoinGroupResponse); r.ErrorCode != not || r.MemberID != "m" {
			t.Errorf("%+v", r)
		}
		if r := w.do(kmsg.NewPtrHeartbeatRequest()).(*kmsg.HeartbeatResponse); r.ErrorCode != not {
			t.Errorf("%+v", r)
		}
		if r := w.do(kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse); r.ErrorCode != 0 || len(r.Groups) > 0 {
			t.Errorf("%+v", r)
		}
		for _, version := range []int16{1, 2, 8} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version = version
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{0}}}
			req.Groups = []kmsg.OffsetFetchRequestGroup{kmsg.NewOffsetFetchRequestGroup()}
			r := w.do(req).(*kmsg.OffsetFetchResponse)
			code := r.ErrorCode
			switch version {
			case 1:
				code = r.Topics[0].Partitions[0].ErrorCode
			case 8:
				code = r.Groups[0].ErrorCode
			}
			if code != not {
				t.Errorf("v%d: %+v", version, r)
			}
		}
	})
}

func TestJavaHost(t *testing.T) {
	for _, test := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, "/127.0.0.1"},
		{&net.TCPAddr{IP: net.IPv6loopback}, "/0:0:0:0:0:0:0:1"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::10")}, "/2001:db8:0:0:0:0:0:10"},
		{&net.UnixAddr{}, "/"},
	} {
		if got := javaHost(test.addr); got != test.want {
			t.Errorf("%v: got %s, want %s", test.addr, got, test.want)
		}
	}
}

// The first to ask for a coordinator has its topic created, and waits for it.
func TestFindCoordinatorCreatesItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var img atomic.Pointer[metadata.Image]
		img.Store(parseImage(t, "broker 1 PLAINTEXT=one:9092"))
		forwarded := 0
		forward := forwarderFunc(func(context.Context, *controllerclient.Forwarded) (kmsg.Response, error) {
			forwarded++
			img.Store(parseImage(t, "broker 1 PLAINTEXT=one:9092\ntopic __consumer_offsets id=1\npartition __consumer_offsets/0 replicas=1 isr=1 leader=1 epoch=0"))
			return createdTopics(protocol.OffsetsTopic, protocol.None), nil
		})
		auto := NewAutoCreate(1, 1, time.Second, forward, zerolog.Nop())
		auto.Internal(protocol.OffsetsTopic, InternalTopic{Partitions: 1, Replicas: 3, Configs: map[string]string{"cleanup.policy": "compact", "a": "b"}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- auto.Run(ctx) }()
		defer func() { cancel(); <-done }()
		a := &Admin{
			Image: img.Load, InternalTopics: auto, Log: zerolog.Nop(),
			ExpectTopics: func(bool, []string) Expectation { return waitASecond{} }, // Run has created by then
		}
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKeys = 4, []string{"g", "h"}
		for range 2 {
			resp := ask(ctx, a.findCoordinator, req).(*kmsg.FindCoordinatorResponse)
			for _, c := range resp.Coordinators {
				if c.ErrorCode != 0 || c.NodeID != 1 || c.Host != "one" || c.Port != 9092 {
					t.Errorf("got %+v", c)
				}
			}
		}
		if forwarded != 1 {
			t.Errorf("%d creations", forwarded)
		}
		topic := auto.request([]string{protocol.OffsetsTopic}).Topics[0]
		if topic.Topic != protocol.OffsetsTopic || topic.NumPartitions != 1 || topic.ReplicationFactor != 3 || len(topic.Configs) != 2 || *topic.Configs[1].Value != "compact" {
			t.Errorf("created %+v", topic)
		}
		req.Version, req.CoordinatorKey = 3, "g"
		if resp := ask(ctx, a.findCoordinator, req).(*kmsg.FindCoordinatorResponse); resp.ErrorCode != 0 || resp.Host != "one" || *resp.ErrorMessage != "NONE" {
			t.Errorf("v3: %+v", resp)
		}
		req.CoordinatorType = 1
		if resp := ask(ctx, a.findCoordinator, req).(*kmsg.FindCoordinatorResponse); resp.ErrorCode != int16(protocol.ErrCoordinatorNotAvailable) {
			t.Errorf("transactions: %+v", resp)
		}
		// A coordinator that is fenced, or that this listener does not lead to, is none.
		for _, broker := range []string{"broker 1 PLAINTEXT=one:9092 fenced=", "broker 1 OTHER=one:9092"} {
			img.Store(parseImage(t, broker+"\ntopic __consumer_offsets id=1\npartition __consumer_offsets/0 replicas=1 isr=1 leader=1 epoch=0"))
			req.CoordinatorType = 0
			if resp := ask(ctx, a.findCoordinator, req).(*kmsg.FindCoordinatorResponse); resp.ErrorCode != int16(protocol.ErrCoordinatorNotAvailable) || resp.NodeID != -1 {
				t.Errorf("%s: %+v", broker, resp)
			}
		}
	})
}

// waitASecond is an expectation that is fulfilled after a second.
type waitASecond struct{}

func (waitASecond) Wait(context.Context, []string) error { time.Sleep(time.Second); return nil }
func (waitASecond) Close()                               {}
