//go:build integration

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

func summary(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("median %v, max %v of %d", times[len(times)/2], times[len(times)-1], len(times))
}

// The active controller dies again and again, while topics are created one after
// the other. With fast detection the reason of each election is evidence. The next
// one knows what was acknowledged before (B069).
func TestControllersKilled(t *testing.T) {
	w := start(t)
	var topics []string
	var gaps, again []time.Duration
	for round := range 10 {
		create := func(name string) {
			topic := fmt.Sprintf("t-%02d-%s", round, name)
			w.Create(topic, 3)
			topics = append(topics, topic)
		}
		for i := range 3 {
			create(fmt.Sprint("before", i))
		}
		victim := w.Controller()
		w.Node(victim).Kill()
		killed := time.Now()
		// At a living broker: how the client finds one is the client's affair.
		last, topic := topics[len(topics)-1], fmt.Sprintf("t-%02d-without", round)
		if codes := w.createBoth(victim%3+1, last, topic); codes[last] != protocol.ErrTopicAlreadyExists {
			t.Errorf("round %d: the creation of %s, which exists, is answered with %v", round, last, codes[last])
		}
		topics = append(topics, topic)
		gaps = append(gaps, time.Since(killed))
		create("again")
		again = append(again, time.Since(killed))
		w.Node(victim).Restart()
	}
	t.Logf("SIGKILL of the active controller to the next acknowledged creation: %s; to one by a client that has to find another broker: %s",
		summary(gaps), summary(again))
	for _, topic := range topics {
		w.AwaitISR(topic, 1, 2, 3)
		if n := len(w.Partitions(topic)); n != 3 {
			t.Errorf("%s has %d partitions of 3", topic, n)
		}
	}
	var byEvidence int
	for _, n := range w.Nodes {
		byEvidence += strings.Count(n.Log(), "the controller's process is gone: electing another at once")
	}
	if byEvidence < 10 {
		t.Errorf("%d elections of 10 or more were by evidence", byEvidence)
	}
}

// createBoth creates topics at a broker that lives, in one request, until they exist.
func (w *world) createBoth(id int32, topics ...string) map[string]protocol.Error {
	w.T.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	for _, name := range topics {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, 3, 3
		req.Topics = append(req.Topics, t)
	}
	codes := make(map[string]protocol.Error)
	for _, t := range harness.AskAt[*kmsg.CreateTopicsResponse](w.World, id, req).Topics {
		codes[t.Topic] = protocol.Error(t.ErrorCode)
		if codes[t.Topic] != protocol.None && codes[t.Topic] != protocol.ErrTopicAlreadyExists {
			w.T.Fatalf("create %s: %v", t.Topic, codes[t.Topic])
		}
	}
	return codes
}

// A broker dies that is not the active controller: it is fenced at once.
func TestBrokersKilled(t *testing.T) {
	w := start(t)
	w.Create("t", 30)
	w.AwaitISR("t", 1, 2, 3)
	for range 5 {
		controller := w.Controller()
		victim := controller%3 + 1
		w.Node(victim).Kill()
		killed := time.Now()
		w.AwaitISR("t", w.Others(victim)...)
		t.Logf("broker killed to leaderships moved: %v", time.Since(killed))
		w.Logged(w.Node(controller), "fenced: its process is gone")
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
}

// The same node is both.
func TestControllerAndBrokerKilled(t *testing.T) {
	w := start(t)
	w.Create("t", 30)
	w.AwaitISR("t", 1, 2, 3)
	for range 5 {
		victim := w.Controller()
		w.Node(victim).Kill()
		killed := time.Now()
		w.AwaitISR("t", w.Others(victim)...)
		t.Logf("active controller killed to its leaderships moved: %v", time.Since(killed))
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
}

// With the detection off, the timeouts do it.
func TestControllerKilledWithoutDetection(t *testing.T) {
	w := start(t, "klamm.fast.failure.detection=false", "broker.session.timeout.ms=3000")
	w.Create("t", 3)
	w.AwaitISR("t", 1, 2, 3)
	var gaps []time.Duration
	for round := range 3 {
		victim := w.Controller()
		w.Node(victim).Kill()
		killed := time.Now()
		w.CreateAt(victim%3+1, fmt.Sprint("without-", round), 1)
		gaps = append(gaps, time.Since(killed))
		w.AwaitISR("t", w.Others(victim)...)
		t.Logf("leaderships moved: %v", time.Since(killed))
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	t.Logf("SIGKILL to the next acknowledged creation, without detection: %s", summary(gaps))
	for _, n := range w.Nodes {
		if strings.Contains(n.Log(), "process is gone") {
			t.Error("evidence was acted upon")
		}
	}
}

// A controller that stands still is replaced after a timeout, once: its port does
// not refuse. When it goes on it follows.
func TestControllerStopped(t *testing.T) {
	w := start(t)
	w.Create("t", 3)
	w.AwaitISR("t", 1, 2, 3)
	victim := w.Controller()
	w.Node(victim).Signal(syscall.SIGSTOP)
	began := time.Now()
	w.CreateAt(victim%3+1, "without", 1)
	t.Logf("SIGSTOP of the active controller to the next acknowledged creation: %v", time.Since(began))
	w.Node(victim).Signal(syscall.SIGCONT)
	w.CreateAt(victim, "with", 1)
	w.AwaitISR("t", 1, 2, 3)
	w.AwaitISR("with", 1, 2, 3)
	var elections int
	for _, n := range w.Nodes {
		if strings.Contains(n.Log(), "process is gone") {
			t.Error("a process that stands still was taken for dead")
		}
		elections += strings.Count(n.Log(), `"message":"elected controller"`)
	}
	if elections != 2 {
		t.Errorf("%d elections, want the first one and one more", elections)
	}
}
