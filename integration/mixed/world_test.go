//go:build integration

package mixed

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

var kafkaControllers = flag.Int("controllers", 1, "how many controllers of Apache Kafka's a cluster has")

// kinds are so many nodes of a kind.
func kinds(count int, kind harness.Kind) []harness.Kind {
	return slices.Repeat([]harness.Kind{kind}, count)
}

// world is a cluster and a client.
type world struct{ *harness.World }

// settings are those of all nodes.
var settings = []string{
	"auto.create.topics.enable=false",
	"min.insync.replicas=2",
	"offsets.topic.replication.factor=3",
	"offsets.topic.num.partitions=6",
	"group.initial.rebalance.delay.ms=0",
	"log.cleaner.backoff.ms=200",
	// Apache Kafka's controllers find a dead broker by this alone.
	"broker.session.timeout.ms=4000",
	"broker.heartbeat.interval.ms=500",
	"auto.leader.rebalance.enable=false", // the tests say who leads
}

func start(t *testing.T, controllers, brokers []harness.Kind) *world {
	t.Helper()
	return newWorld(t, harness.StartSplit(t, controllers, brokers, settings...))
}

// startKafka starts Apache Kafka's controllers, in a dynamic quorum, and three brokers.
func startKafka(t *testing.T, controllers int) *world {
	t.Helper()
	t.Setenv("KLAMM_NODE", string(harness.Kafka))
	return newWorld(t, harness.StartDynamic(t, controllers, 0, 3, settings...))
}

func newWorld(t *testing.T, c *harness.Cluster) *world {
	t.Helper()
	return &world{harness.NewWorld(t, c, kgo.MetadataMinAge(100*time.Millisecond))}
}

// lead has the first replica of every partition lead, which is in sync.
func (w *world) lead(topic string) {
	w.T.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 30_000
	w.Await("the first replicas to lead "+topic, func() bool {
		harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
		parts := w.Partitions(topic)
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader != p.Replicas[0] })
	})
}

// active is the active controller.
func (w *world) active() *harness.Node {
	w.T.Helper()
	return w.Controllers[w.Controller()-101]
}

// everyBroker are the ids of all brokers.
func (w *world) everyBroker() (ids []int32) {
	for i := range w.Nodes {
		ids = append(ids, int32(i+1))
	}
	return ids
}

// move reassigns partitions, and waits until all of it is done.
func (w *world) move(topic string, targets ...[]int32) {
	w.T.Helper()
	w.Move(topic, targets...)
	w.Await(fmt.Sprintf("%s to be on %v", topic, targets), func() bool {
		parts := w.Partitions(topic)
		return len(parts) == len(targets) && !slices.ContainsFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool {
			want := targets[p.Partition]
			return !slices.Equal(p.Replicas, want) || len(p.ISR) != len(want) || !slices.Contains(want, p.Leader)
		})
	})
}

// verify has klamm compare the replicas of topics over the wire.
func (w *world) verify(topics ...string) {
	w.T.Helper()
	for _, topic := range topics {
		if out, errOut, ok := harness.Run(w.T, "replicas", "verify", topic, "--timeout", w.Patience.String(), "--bootstrap-server", strings.Join(w.Bootstrap(), ",")); !ok {
			w.T.Errorf("replicas verify %s:\n%s%s", topic, out, errOut)
		}
	}
}
