//go:build integration

package decisions

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// TestB089PlacementAfterFailover: after a change of the controller fenced brokers,
// known from the log alone, got no replicas. The new controller places and refuses
// as the old one did.
func TestB089PlacementAfterFailover(t *testing.T) {
	kinds := make([]harness.Kind, 3)
	c := harness.StartSplit(t, kinds, kinds, "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
	w := newWorld(t, c)
	w.until("a cluster", all(fenced(1, false), fenced(2, false), fenced(3, false)))
	leader := w.leader()
	c.Node(3).Kill()
	w.until("fenced", fenced(3, true))
	check := func(when, name string) {
		t.Helper()
		resp, err := w.send(w.broker(1), newest, create(placed(name, 1, 3), placed(name+"4", 1, 4)))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		topics := resp.(*kmsg.CreateTopicsResponse).Topics
		if code := protocol.Error(topics[0].ErrorCode); code != protocol.None {
			t.Errorf("%s: three replicas are answered with %v", when, code)
		}
		if code := protocol.Error(topics[1].ErrorCode); code != protocol.ErrInvalidReplicationFactor {
			t.Errorf("%s: four replicas are answered with %v", when, code)
		}
	}
	check("before", "before")
	c.Controllers[leader-101].Kill()
	check("after the controller has changed", "after")
}
