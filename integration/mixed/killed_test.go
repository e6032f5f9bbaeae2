//go:build integration

package mixed

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// Partitions with replicas on brokers of both kinds: every node leads in turn, and
// is killed in turn, and stopped, while replicas move from kind to kind.
func TestUnderKlammControllers(t *testing.T) {
	mixed(t, kinds(3, harness.Klamm), []harness.Kind{harness.Klamm, harness.Kafka, harness.Klamm})
}

func TestUnderKafkaControllers(t *testing.T) {
	mixed(t, kinds(*kafkaControllers, harness.Kafka), []harness.Kind{harness.Kafka, harness.Klamm, harness.Kafka})
}

func mixed(t *testing.T, controllers, brokers []harness.Kind) {
	w := start(t, controllers, brokers)
	w.CreateOn("t", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
	w.CreateOn("tail", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
	w.CreateOn("moved", []int32{1, 2}, []int32{2, 3}, []int32{3, 1})
	w.AwaitISR("t", 1, 2, 3)
	w.Await("the brokers to be observers", func() bool {
		quorum := harness.Ask[*kmsg.DescribeQuorumResponse](w.World, harness.QuorumRequest(protocol.MetadataTopic, 0))
		return len(quorum.Topics[0].Partitions[0].Observers) == len(w.Nodes)
	})
	l, moved := w.load("t"), w.load("moved")
	g := w.member("t", "readers")

	for _, id := range w.everyBroker() {
		w.lead("t")
		w.lead("tail")
		l.goOn()
		w.killWithTail(id, "tail")
		w.AwaitISR("t", w.Others(id)...)
		l.goOn()
		w.Node(id).Restart()
		w.AwaitISR("t", 1, 2, 3)
		w.AwaitISR("tail", 1, 2, 3)
	}
	if kept := w.Count("tail"); kept >= int64(len(w.Nodes))*(tail+2) {
		t.Errorf("all %d records are there, and nothing had to be given up", kept)
	}

	active := w.active()
	active.Kill()
	l.goOn()
	if len(w.Controllers) == 1 {
		active.Restart()
	}
	w.CreateOn("after", []int32{1, 2, 3})
	w.AwaitISR("after", 1, 2, 3)
	if len(w.Controllers) > 1 {
		active.Restart()
	}

	for range 2 {
		w.move("moved", []int32{3, 1}, []int32{1, 2}, []int32{2, 3})
		moved.goOn()
		w.move("moved", []int32{2, 3}, []int32{3, 1}, []int32{1, 2})
		moved.goOn()
	}
	moved.end()

	for _, n := range slices.Concat(w.Nodes, w.Controllers) {
		n.Stop()
		if n.Address != "" || len(w.Controllers) > 1 {
			l.goOn()
		}
		n.Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	l.end()
	g.end()
	w.verify("t", "tail", "after")
	w.SameLogs("t", "tail", "after")
}

// tail is how many records a leader has that nobody else has.
const tail = 20

// killWithTail kills the leader of partition id-1 when it has records that no other
// replica has, and that it must do without when it is back. The first of them may be
// in an answer that a follower finds when it goes on.
func (w *world) killWithTail(id int32, topic string) {
	w.T.Helper()
	client := w.NewClient(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	write := func(n int) {
		w.T.Helper()
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Topic: topic, Partition: id - 1, Value: fmt.Appendf(nil, "%d of %d by %d", i, n, id)})
		}
		if err := client.ProduceSync(w.Within(), records...).FirstErr(); err != nil {
			w.T.Fatal(err)
		}
	}
	write(1) // the client has found the leader, and the rest takes no time
	for _, other := range w.Others(id) {
		w.Node(other).Signal(syscall.SIGSTOP)
	}
	write(1)
	write(tail)
	w.Node(id).Kill()
	for _, other := range w.Others(id) {
		w.Node(other).Signal(syscall.SIGCONT)
	}
}
