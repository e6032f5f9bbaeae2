//go:build integration

package roles

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// world is a cluster and a client.
type world struct{ *harness.World }

func start(t *testing.T, controllers, brokers []harness.Kind, settings ...string) *world {
	t.Helper()
	settings = append([]string{
		"auto.create.topics.enable=false",
		// Groups must outlive any one broker.
		fmt.Sprintf("offsets.topic.replication.factor=%d", min(len(brokers), 3)),
		"group.initial.rebalance.delay.ms=0",
	}, settings...)
	return &world{harness.NewWorld(t, harness.StartSplit(t, controllers, brokers, settings...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))}
}

// create creates a topic with the given replicas of each partition, and waits
// until they are all in sync.
func (w *world) create(topic string, assignment ...[]int32) {
	w.T.Helper()
	w.CreateOn(topic, assignment...)
	w.awaitISR(topic, assignment...)
}

// awaitISR waits until every broker says of each partition that these are in
// sync, and that the first of them leads if it is to.
func (w *world) awaitISR(topic string, isr ...[]int32) {
	w.T.Helper()
	w.Await(fmt.Sprintf("in-sync sets of %s to be %v", topic, isr), func() bool {
		for _, id := range isr[0] {
			resp, err := w.Client.Broker(int(id)).Request(w.Within(), harness.MetadataRequest(topic))
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
	w.T.Helper()
	var records []*kgo.Record
	for i := range n {
		for p := range partitions {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(p), Value: fmt.Appendf(nil, "%d-%d", p, i)})
		}
	}
	if err := w.Client.ProduceSync(w.Within(), records...).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
}

// consume reads n records by a group, which is new.
func (w *world) consume(topic, group string, n int) {
	w.T.Helper()
	client := w.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := w.Within()
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.T.Fatalf("read %d of %d records of %s: %v", got, n, topic, fetches.Err())
		}
		got += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		w.T.Fatal(err)
	}
}

// observers are those that the active controller lists, with their log ends, and
// the active controller.
func (w *world) observers() (leader int32, ends map[int32]int64) {
	w.T.Helper()
	p := w.quorum().Topics[0].Partitions[0]
	ends = make(map[int32]int64)
	for _, o := range p.Observers {
		ends[o.ReplicaID] = o.LogEndOffset
	}
	return p.LeaderID, ends
}

// registered is how many voters have said where they listen.
func (w *world) registered() (n int) {
	w.T.Helper()
	for _, node := range w.quorum().Nodes {
		if len(node.Listeners) > 0 {
			n++
		}
	}
	return n
}

func (w *world) quorum() *kmsg.DescribeQuorumResponse {
	w.T.Helper()
	return harness.Ask[*kmsg.DescribeQuorumResponse](w.World, harness.QuorumRequest(protocol.MetadataTopic, 0))
}
