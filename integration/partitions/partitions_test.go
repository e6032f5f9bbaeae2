//go:build integration

package partitions

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// No node reaches another: nothing is acknowledged any more, and no controller
// elected. What was asked for meanwhile is done when they are together again.
func TestMajorityLost(t *testing.T) {
	w := start(t)
	w.goesOn()
	before := w.elections()
	w.net.Isolate(1)
	w.net.Cut(2, 3)
	// What had been replicated may still be acknowledged, until the cut.
	pause(t.Context(), 500*time.Millisecond)
	records, topics := w.load.count()
	pause(t.Context(), 2*session)
	if r, n := w.load.count(); r != records || n != topics {
		t.Errorf("%d records and %d topics were acknowledged without a majority", r-records, n-topics)
	}
	w.net.Heal()
	w.goesOn()
	w.whole(before, 1)
}

// The active controller, which leads a partition too, is alone. It acknowledges
// nothing that others must have, the others go on without it, and what it took
// in alone is gone when it is back (B068 of package faults).
func TestMinorityIsolated(t *testing.T) {
	w := start(t)
	old := w.Controller()
	rest := w.Others(old)
	w.place("t", old, rest[0], rest[1])
	w.Produce("t", "before")
	before := w.elections()

	alone := w.only(old, kgo.RequiredAcks(kgo.AllISRAcks()))
	careless := w.only(old, kgo.RequiredAcks(kgo.LeaderAck()))
	w.net.Isolate(old)
	err := careless.ProduceSync(w.Within(), &kgo.Record{Topic: "t", Value: []byte("lost")}).FirstErr()
	t.Logf("acks=1 at the isolated leader: %v", err)
	ctx, cancel := context.WithTimeout(t.Context(), session)
	defer cancel()
	if err := alone.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("alone")}).FirstErr(); err == nil {
		t.Error("the isolated leader acknowledged a record for all in sync")
	}
	if resp, err := alone.Broker(int(old)).Request(w.Within(), creation("alone")); err == nil && codeOf(resp.(*kmsg.CreateTopicsResponse)) == protocol.None {
		t.Error("the isolated controller created a topic")
	}
	w.AwaitISR("t", rest...)
	w.Produce("t", "after")
	w.goesOn()
	w.mostElections(before, 1)

	w.net.Heal()
	w.AwaitISR("t", 1, 2, 3)
	got := w.Consume("t", 2)
	if got[0] != "after" || got[1] != "before" {
		t.Errorf("t has %q", got)
	}
	w.load.topics = append(w.load.topics, "t")
	w.whole(before, 1)
}

// The active controller hears nobody, and is heard.
func TestDeafController(t *testing.T) {
	oneWay(t, func(net *harness.Network, controller, other int32) { net.Drop(other, controller) })
}

// The active controller is heard by nobody, and hears.
func TestMuteController(t *testing.T) {
	oneWay(t, func(net *harness.Network, controller, other int32) { net.Drop(controller, other) })
}

// oneWay has the active controller and each other node talk in one direction only:
// another is elected, once.
func oneWay(t *testing.T, drop func(net *harness.Network, controller, other int32)) {
	t.Helper()
	w := start(t)
	controller := w.Controller()
	before := w.elections()
	for _, other := range w.Others(controller) {
		drop(w.net, controller, other)
	}
	w.AwaitISR(loaded, w.Others(controller)...)
	w.goesOn()
	pause(t.Context(), session)
	w.whole(before, 1)
}

// One link is cut, that of the active controller and another node, which a third
// still reaches: the node is missing, the controller stays.
func TestLinkOfController(t *testing.T) {
	w := start(t)
	controller := w.Controller()
	missing := w.Others(controller)[0]
	before := w.elections()
	w.net.Cut(controller, missing)
	w.AwaitISR(loaded, w.Others(missing)...)
	w.goesOn()
	pause(t.Context(), session)
	w.whole(before, 0)
}

// One link is cut between two nodes that both reach the controller: whoever
// follows over it leaves the in-sync sets.
func TestLinkOfFollowers(t *testing.T) {
	w := start(t)
	controller := w.Controller()
	rest := w.Others(controller)
	w.place("t", rest[0], rest[1], controller)
	before := w.elections()
	w.net.Cut(rest[0], rest[1])
	w.Produce("t", "over the other link")
	w.load.topics = append(w.load.topics, "t")
	w.goesOn()
	w.whole(before, 0)
}

// A broker's heartbeats do not reach the active controller, and all else does:
// the broker is fenced and leads nothing, until they do.
func TestHeartbeatsLost(t *testing.T) {
	w := start(t)
	controller := w.Controller()
	silent := w.Others(controller)[0]
	before := w.elections()
	w.net.DropTo(harness.ControllerPort, silent, controller)
	w.AwaitISR(loaded, w.Others(silent)...)
	w.goesOn()
	w.mostElections(before, 0)
	w.net.Heal()
	w.AwaitISR(loaded, 1, 2, 3)
	w.whole(before, 0)
}

// The active controller stands still, another is elected; what was sent to the
// old one meanwhile it finds when it goes on, and may not act upon (B060 of package
// faults).
func TestControllerStopped(t *testing.T) {
	w := start(t)
	old := w.Controller()
	rest := w.Others(old)
	w.place("t", old, rest[0], rest[1])
	before := w.elections()
	w.Node(old).Signal(syscall.SIGSTOP)
	alone := w.only(old, kgo.RequiredAcks(kgo.AllISRAcks()))
	// The kernel takes the requests in.
	created := make(chan protocol.Error, 1)
	go func() {
		code := protocol.ErrUnknownServerError
		if resp, err := alone.Broker(int(old)).Request(w.Within(), creation("late")); err == nil {
			code = codeOf(resp.(*kmsg.CreateTopicsResponse))
		}
		created <- code
	}()
	w.AwaitISR("t", rest...)
	w.goesOn()
	w.Node(old).Signal(syscall.SIGCONT)
	w.AwaitISR("t", 1, 2, 3)
	if code := <-created; code == protocol.None {
		w.load.topics = append(w.load.topics, "late") // the new one created it, and so it must be there
	}
	w.load.topics = append(w.load.topics, "t")
	w.whole(before, 1)
}

// A firewall refuses what comes to the active controller's port. Nobody may take
// the controller for dead, to whom it still talks itself.
func TestControllerPortRejected(t *testing.T) {
	w := start(t)
	controller := w.Controller()
	before := w.elections()
	w.net.Reject(harness.ControllerPort, controller)
	pause(t.Context(), 2*session)
	w.mostElections(before, 0)
	w.net.Heal()
	w.goesOn()
	w.whole(before, 0)
}

// A firewall refuses all that comes to the active controller's host: it looks
// dead and is not. One election follows, and not a series of them.
func TestControllerHostRejected(t *testing.T) {
	w := start(t)
	controller := w.Controller()
	before := w.elections()
	w.net.Reject(0, controller)
	w.AwaitISR(loaded, w.Others(controller)...)
	w.goesOn()
	pause(t.Context(), 2*session)
	w.whole(before, 1)
}

// All nodes die in one moment, under load.
func TestAllKilledAtOnce(t *testing.T) {
	w := start(t)
	before := w.elections()
	for range 2 {
		w.goesOn()
		for _, n := range w.Nodes {
			n.Signal(syscall.SIGKILL)
		}
		for _, n := range w.Nodes {
			n.Kill()
		}
		w.Restart()
	}
	w.goesOn()
	w.whole(before, 4)
}
