//go:build integration

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// brokerOf is a broker of a node's cluster that is no controller, formatted and not
// started. It gives up soon where it may not register.
func brokerOf(t *testing.T, controller string, id int32) *harness.Node {
	t.Helper()
	n := configure(t)
	n.Configure("process.roles=broker", fmt.Sprint("node.id=", id), "controller.quorum.voters=1@"+controller,
		"listeners=PLAINTEXT://"+n.Address, "initial.broker.registration.timeout.ms=1000")
	n.Format()
	return n
}

// TestB084TwoBrokersWithOneID: two processes with one node id disturbed each other,
// and the later one won. The first goes on, and the second ends and says why.
func TestB084TwoBrokersWithOneID(t *testing.T) {
	t.Parallel()
	controller := ownNode(t)
	first, second := brokerOf(t, controller.Controller, 2), brokerOf(t, controller.Controller, 2)
	first.Restart()
	said := second.Refuses("a broker whose id is taken")
	if !onKafka && !strings.Contains(said, "another broker with this node.id is alive") {
		t.Errorf("the second does not say why it ends:\n%s", said)
	}
	port := func() (port int32) {
		for _, b := range ask[*kmsg.DescribeClusterResponse](dial(t, controller.Address), 0, kmsg.NewPtrDescribeClusterRequest()).Brokers {
			if b.NodeID == 2 {
				port = b.Port
			}
		}
		return port
	}
	deadline := time.Now().Add(patience)
	for !strings.HasSuffix(first.Address, fmt.Sprintf(":%d", port())) {
		if time.Now().After(deadline) {
			t.Fatalf("broker 2 is at port %d, not the first at %s", port(), first.Address)
		}
	}
	// It serves as before, under the epoch that it had.
	wantCode(t, "the first", ask[*kmsg.ApiVersionsResponse](dial(t, first.Address), 0, kmsg.NewPtrApiVersionsRequest()).ErrorCode, protocol.None)
	if log := first.Log(); strings.Contains(log, "refused") {
		t.Errorf("the first was disturbed:\n%s", log)
	}
}
