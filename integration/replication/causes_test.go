//go:build integration

package replication

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// event is a line of klamm metadata history --json.
type event struct {
	Type    string `json:"type"`
	Cause   string `json:"cause"`
	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"`
}

// history is what the metadata of node 1 say of a partition.
func (w *world) history(partition string) (events []event) {
	w.T.Helper()
	out := harness.MustRun(w.T, "metadata", "history", "--json", w.Nodes[0].Data(), "partition", partition)
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.T.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// causes fails where a change of a topic's partitions says no cause, and returns those
// that are said.
func (w *world) causes(topic string) map[string]int {
	w.T.Helper()
	said := make(map[string]int)
	for _, p := range w.Partitions(topic) {
		for _, e := range w.history(fmt.Sprintf("%s/%d", topic, p.Partition)) {
			if e.Cause == "" && e.Type != "" {
				w.T.Errorf("%s of %s-%d says no cause: %+v", e.Type, topic, p.Partition, e.Changes)
			}
			said[e.Cause]++
		}
	}
	return said
}

// Each way in which an in-sync set or a leader changes is in the metadata with its cause.
func TestCauses(t *testing.T) {
	w := start(t, "replica.lag.time.max.ms=1000", "broker.session.timeout.ms=60000", "auto.leader.rebalance.enable=false")
	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	w.Produce("t", "a")
	next := w.Leader("t")
	w.Node(next).Stop()
	w.AwaitISR("t", w.Others(next)...)
	w.Node(next).Restart()
	w.AwaitISR("t", 1, 2, 3)
	leads := w.Leader("t")
	slow := w.Others(leads)[0]
	if slow == w.Controller() {
		slow = w.Others(leads)[1]
	}
	w.Node(slow).Signal(syscall.SIGSTOP)
	w.Produce("t", "b")
	w.AwaitISR("t", w.Others(slow)...)
	w.Node(slow).Signal(syscall.SIGCONT)
	w.AwaitISR("t", 1, 2, 3)
	preferred := w.Partitions("t")[0].Replicas[0]
	if preferred != leads {
		req := kmsg.NewPtrElectLeadersRequest()
		asked := kmsg.NewElectLeadersRequestTopic()
		asked.Topic, asked.Partitions = "t", []int32{0}
		req.Topics, req.TimeoutMillis = append(req.Topics, asked), 30_000
		harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
		w.Await("the preferred leader", func() bool { return w.Leader("t") == preferred })
	}
	// This one has lived for a while: a refusal proves nothing of a broker that nobody
	// has reached yet.
	killed := leads
	w.Node(killed).Kill()
	w.AwaitISR("t", w.Others(killed)...)
	w.Node(killed).Restart()
	w.AwaitISR("t", 1, 2, 3)
	said := w.causes("t")
	for _, part := range []string{
		fmt.Sprintf("lag of %d", slow), fmt.Sprintf("%d caught up", slow), "preferred election",
		fmt.Sprintf("broker %d: process gone", killed), fmt.Sprintf("%d caught up", killed),
		fmt.Sprintf("broker %d: controlled shutdown", next), fmt.Sprintf("%d caught up", next),
	} {
		found := part == "preferred election" && preferred == leads
		for cause := range said {
			found = found || strings.Contains(cause, part)
		}
		if !found {
			t.Errorf("nothing says %q: %v", part, said)
		}
	}
}

// Many partitions change at once: a broker that leads a third of them dies, and
// comes back. Everything has a leader again, everybody is in sync again, and the in-sync
// sets changed for the reasons that are said.
func TestManyPartitions(t *testing.T) {
	const partitions = 1000
	w := start(t)
	w.Create("many", partitions)
	w.AwaitISR("many", 1, 2, 3)
	victim := w.Controller()%3 + 1
	w.Node(victim).Kill()
	killed := time.Now()
	w.AwaitISR("many", w.Others(victim)...)
	t.Logf("%d partitions have lost a replica, and a third of them their leader: %v", partitions, time.Since(killed).Round(time.Millisecond))
	w.Produce("many", "while", "it", "is", "away")
	w.Node(victim).Restart()
	started := time.Now()
	w.AwaitISR("many", 1, 2, 3)
	t.Logf("all of them are in sync again: %v", time.Since(started).Round(time.Millisecond))
	w.MustHave("many", []string{"while", "it", "is", "away"})
	for _, p := range []string{"many/0", "many/1", "many/2", fmt.Sprint("many/", partitions-1)} {
		var gone, back bool
		for _, e := range w.history(p) {
			gone = gone || strings.Contains(e.Cause, fmt.Sprintf("broker %d: process gone", victim))
			back = back || strings.Contains(e.Cause, fmt.Sprintf("%d caught up", victim))
		}
		if !gone || !back {
			t.Errorf("%s: it left: %t, it came back: %t", p, gone, back)
		}
	}
}
