//go:build integration

package partitions

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// Public bugs of others that show only where a node is cut off: see package faults.

// Elsewhere a follower never finished truncating after several elections without
// a record between them: it kept entries of epochs that its leader did not have.
// It rejoins the in-sync set.
func TestB039ElectionsWithoutWrites(t *testing.T) {
	w := start(t)
	before := w.elections()
	pair := w.Others(w.Controller())
	w.place("t", pair...)
	w.Produce("t", "before")
	lead := func(ids ...int32) {
		w.Move("t", ids)
		w.elect("t", ids[0])
	}
	lead(pair[1], pair[0])
	lead(pair[0], pair[1])
	lead(pair[1], pair[0])
	w.net.Isolate(pair[1])
	w.AwaitISR("t", pair[0])
	w.net.Heal()
	w.AwaitISR("t", pair...)
	lead(pair[0], pair[1])
	lead(pair[1], pair[0])
	w.Produce("t", "after")
	w.AwaitISR("t", pair...)
	w.MustHave("t", []string{"before", "after"})
	w.whole(before, 0)
}

// Elsewhere a deposed leader took over the new one's high watermark before it had
// cut off what only itself had, and showed it to consumers.
func TestB041DeposedLeader(t *testing.T) {
	w := start(t)
	before := w.elections()
	controller := w.Controller()
	rest := w.Others(controller)
	old := rest[0]
	w.place("t", old, rest[1], controller)
	w.Produce("t", "before")
	careless := w.only(old, kgo.RequiredAcks(kgo.LeaderAck()))
	w.net.Isolate(old)
	if err := careless.ProduceSync(w.Within(), &kgo.Record{Topic: "t", Value: []byte("of the old leader")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	shown := w.readAt(old, "t")
	w.AwaitISR("t", rest[1], controller)
	w.Produce("t", "of the new leader", "and more")
	w.net.Heal()
	w.AwaitISR("t", 1, 2, 3)
	w.elect("t", old)
	w.Await("the new leader's record at the old one", func() bool { return bytes.Contains(shown(), []byte("of the new leader")) })
	if bytes.Contains(shown(), []byte("of the old leader")) {
		t.Error("a consumer was shown a record that is not there any more")
	}
	w.load.topics = append(w.load.topics, "t")
	w.whole(before, 0)
}

// Elsewhere a controller that was stale itself said that a leader's epoch was
// fenced, and the leader gave up. It says that it is not the controller.
func TestB054DeposedController(t *testing.T) {
	w := start(t)
	old := w.Controller()
	before := w.elections()
	rest := w.Others(old)
	w.place("t", rest[0], rest[1], old)
	metadata := harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest("t"))
	w.net.Isolate(old)
	w.AwaitISR("t", rest...)

	partition := kmsg.NewAlterPartitionRequestTopicPartition()
	partition.LeaderEpoch = metadata.Topics[0].Partitions[0].LeaderEpoch + 1
	partition.NewISR = rest
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.TopicID, topic.Partitions = metadata.Topics[0].TopicID, append(topic.Partitions, partition)
	req := kmsg.NewPtrAlterPartitionRequest()
	req.BrokerID, req.Topics = rest[0], append(req.Topics, topic)
	asking := w.NewClient(kgo.SeedBrokers(w.Node(old).Controller))
	resp, err := asking.SeedBrokers()[0].Request(w.Within(), req)
	if err != nil {
		t.Fatal(err)
	}
	if code := protocol.Error(resp.(*kmsg.AlterPartitionResponse).ErrorCode); code != protocol.ErrNotController {
		t.Errorf("the deposed controller answers %v", code)
	}
	w.whole(before, 1)
}

// Elsewhere a coordinator that was cut off answered OffsetFetch with a code that
// clients do not try again after, and two brokers listed one group. It answers what
// clients know, and once all is quiet each group is at one broker (B125).
func TestB113IsolatedCoordinator(t *testing.T) {
	w := start(t)
	before := w.elections()
	alone := w.Others(w.Controller())[0]
	var at string // a group that is coordinated there
	var groups []string
	for i := 0; i < 20 || at == ""; i++ {
		group := fmt.Sprintf("group-%02d", i)
		groups = append(groups, group)
		if w.commit(group, loaded, alone) == alone {
			at = group
		}
	}
	w.AwaitISR(offsets, 1, 2, 3)
	client := w.only(alone)
	w.net.Isolate(alone)
	codes := make(map[protocol.Error]int)
	for began := time.Now(); time.Since(began) < 2*session; pause(t.Context(), 20*time.Millisecond) {
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = at
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable, req.Groups = true, append(req.Groups, group)
		resp, err := client.Broker(int(alone)).Request(w.Within(), req)
		if err != nil {
			t.Fatal(err)
		}
		codes[protocol.Error(resp.(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode)]++
	}
	t.Logf("OffsetFetch at the isolated coordinator: %v", codes)
	for code := range codes {
		switch code {
		case protocol.None, protocol.ErrCoordinatorLoadInProgress, protocol.ErrCoordinatorNotAvailable, protocol.ErrNotCoordinator, protocol.ErrUnstableOffsetCommit:
		default:
			t.Errorf("OffsetFetch is answered with %v", code)
		}
	}
	w.AwaitISR(offsets, w.Others(alone)...)
	if next := w.commit(at, loaded, w.Others(alone)[0]); next == alone {
		t.Errorf("%s is committed to by %d, which is cut off", at, next)
	}
	w.net.Heal()
	w.AwaitISR(offsets, 1, 2, 3)
	var listed map[string][]int32
	w.Await("each group at one broker", func() bool {
		listed = make(map[string][]int32)
		for id := range int32(3) {
			resp, err := w.Client.Broker(int(id+1)).Request(w.Within(), kmsg.NewPtrListGroupsRequest())
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range resp.(*kmsg.ListGroupsResponse).Groups {
				listed[group.Group] = append(listed[group.Group], id+1)
			}
		}
		return !slices.ContainsFunc(groups, func(group string) bool { return len(listed[group]) != 1 })
	})
	if slices.Contains(listed[at], alone) {
		t.Errorf("%s is at %v", at, listed[at])
	}
	w.whole(before, 0)
}

const offsets = "__consumer_offsets"

// commit commits an offset of a group, at the coordinator that a broker names.
func (w *world) commit(group, topic string, asked int32) (coordinator int32) {
	w.T.Helper()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = 1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	t.TopicID = harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest(topic)).Topics[0].TopicID
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = group, -1, append(req.Topics, t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{group}
	w.Await("a commit of "+group, func() bool {
		found, err := w.Client.Broker(int(asked)).Request(w.Within(), find)
		if err != nil {
			return false
		}
		if coordinator = found.(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID; coordinator < 0 {
			return false
		}
		resp, err := w.Client.Broker(int(coordinator)).Request(w.Within(), req)
		return err == nil && resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
	return coordinator
}

// elect has the preferred leader of a topic's partition lead.
func (w *world) elect(topic string, want int32) {
	w.T.Helper()
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, t)
	w.Await("the preferred leader", func() bool {
		harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
		return w.Leader(topic) == want
	})
}

// readAt consumes a partition from its start at one node, again and again. What it
// returns gives all that came so far.
func (w *world) readAt(id int32, topic string) (shown func() []byte) {
	w.T.Helper()
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest(topic)).Topics[0].TopicID
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.Topics = 1<<20, append(req.Topics, t)
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var all []byte
	var reading sync.WaitGroup
	client := w.only(id)
	reading.Go(func() {
		for ctx.Err() == nil {
			if resp, err := client.Broker(int(id)).Request(ctx, req); err == nil {
				for _, t := range resp.(*kmsg.FetchResponse).Topics {
					mu.Lock()
					all = append(all, t.Partitions[0].RecordBatches...)
					mu.Unlock()
				}
			}
			pause(ctx, 10*time.Millisecond)
		}
	})
	w.T.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Clone(all)
	}
}
