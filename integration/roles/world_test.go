//go:build integration

package roles

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// world is a cluster and a client.
type world struct {
	*harness.Cluster
	t      *testing.T
	client *kgo.Client
}

func start(t *testing.T, controllers, brokers []harness.Kind, settings ...string) *world {
	t.Helper()
	settings = append([]string{
		"auto.create.topics.enable=false",
		// Groups must outlive any one broker.
		fmt.Sprintf("offsets.topic.replication.factor=%d", min(len(brokers), 3)),
		"group.initial.rebalance.delay.ms=0",
	}, settings...)
	w := &world{t: t, Cluster: harness.StartSplit(t, controllers, brokers, settings...)}
	w.client = w.newClient()
	return w
}

func (w *world) newClient(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// create creates a topic with the given replicas of each partition, and waits
// until they are all in sync.
func (w *world) create(topic string, assignment ...[]int32) {
	w.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	for i, replicas := range assignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	req.Topics = append(req.Topics, t)
	resp, err := w.client.Request(within(w.t), req)
	if err != nil {
		w.t.Fatal(err)
	}
	if r := resp.(*kmsg.CreateTopicsResponse).Topics[0]; r.ErrorCode != 0 && r.ErrorCode != int16(protocol.ErrTopicAlreadyExists) {
		w.t.Fatalf("create %s: %v", topic, protocol.Error(r.ErrorCode))
	}
	w.awaitISR(topic, assignment...)
}

// awaitISR waits until every broker says of each partition that these are in
// sync, and that the first of them leads if it is to.
func (w *world) awaitISR(topic string, isr ...[]int32) {
	w.t.Helper()
	w.await(fmt.Sprintf("in-sync sets of %s to be %v", topic, isr), func() bool {
		for _, id := range isr[0] {
			req := kmsg.NewPtrMetadataRequest()
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &topic
			req.Topics = append(req.Topics, t)
			resp, err := w.client.Broker(int(id)).Request(within(w.t), req)
			if err != nil {
				return false
			}
			topics := resp.(*kmsg.MetadataResponse).Topics
			if len(topics) != 1 || len(topics[0].Partitions) != len(isr) {
				return false
			}
			for _, p := range topics[0].Partitions {
				want := isr[p.Partition]
				if !slices.Equal(slices.Sorted(slices.Values(p.ISR)), slices.Sorted(slices.Values(want))) || !slices.Contains(want, p.Leader) {
					return false
				}
			}
		}
		return true
	})
}

// produce writes n records to each partition with acks=all.
func (w *world) produce(topic string, partitions, n int) {
	w.t.Helper()
	var records []*kgo.Record
	for i := range n {
		for p := range partitions {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(p), Value: fmt.Appendf(nil, "%d-%d", p, i)})
		}
	}
	if err := w.client.ProduceSync(within(w.t), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// consume reads n records by a group, which is new.
func (w *world) consume(topic, group string, n int) {
	w.t.Helper()
	client := w.newClient(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := within(w.t)
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("read %d of %d records of %s: %v", got, n, topic, fetches.Err())
		}
		got += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// observers are those that the active controller lists, with their log ends, and
// the active controller.
func (w *world) observers() (leader int32, ends map[int32]int64) {
	w.t.Helper()
	p := w.quorum().Topics[0].Partitions[0]
	ends = make(map[int32]int64)
	for _, o := range p.Observers {
		ends[o.ReplicaID] = o.LogEndOffset
	}
	return p.LeaderID, ends
}

// registered is how many voters have said where they listen.
func (w *world) registered() (n int) {
	w.t.Helper()
	for _, node := range w.quorum().Nodes {
		if len(node.Listeners) > 0 {
			n++
		}
	}
	return n
}

func (w *world) quorum() *kmsg.DescribeQuorumResponse {
	w.t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{
		Topic: protocol.MetadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}},
	}}
	resp, err := w.client.Request(within(w.t), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.(*kmsg.DescribeQuorumResponse)
}
