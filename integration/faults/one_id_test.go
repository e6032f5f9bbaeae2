//go:build integration

package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// brokerOf is a broker of a node's cluster that is no controller, formatted and not
// started. It gives up soon where it may not register.
func brokerOf(t *testing.T, controller string, id int32) *node {
	t.Helper()
	n, err := configure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(n.config())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(config)) {
		switch key, _, _ := strings.Cut(line, "="); key {
		case "process.roles", "node.id", "controller.quorum.voters", "listeners":
		default:
			lines = append(lines, line)
		}
	}
	lines = append(lines, fmt.Sprintf("process.roles=broker\nnode.id=%d\ncontroller.quorum.voters=1@%s\nlisteners=PLAINTEXT://%s\ninitial.broker.registration.timeout.ms=1000\n",
		id, controller, n.broker))
	if err := os.WriteFile(n.config(), []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := n.format(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	t.Cleanup(n.kill)
	return n
}

// TestB084TwoBrokersWithOneID: two processes with one node id disturbed each other,
// and the later one won. The first goes on, and the second ends and says why.
func TestB084TwoBrokersWithOneID(t *testing.T) {
	t.Parallel()
	controller := ownNode(t)
	first, second := brokerOf(t, controller.controller, 2), brokerOf(t, controller.controller, 2)
	if err := first.start(); err != nil {
		t.Fatal(err)
	}
	said := second.refuses(t, "a broker whose id is taken")
	if kafka == "" && !strings.Contains(said, "another broker with this node.id is alive") {
		t.Errorf("the second does not say why it ends:\n%s", said)
	}
	port := func() (port int32) {
		for _, b := range ask[*kmsg.DescribeClusterResponse](dial(t, controller.broker), 0, kmsg.NewPtrDescribeClusterRequest()).Brokers {
			if b.NodeID == 2 {
				port = b.Port
			}
		}
		return port
	}
	deadline := time.Now().Add(patience)
	for !strings.HasSuffix(first.broker, fmt.Sprintf(":%d", port())) {
		if time.Now().After(deadline) {
			t.Fatalf("broker 2 is at port %d, not the first at %s", port(), first.broker)
		}
	}
	// It serves as before, under the epoch that it had.
	wantCode(t, "the first", ask[*kmsg.ApiVersionsResponse](dial(t, first.broker), 0, kmsg.NewPtrApiVersionsRequest()).ErrorCode, protocol.None)
	if log := first.logTail(); strings.Contains(log, "refused") {
		t.Errorf("the first was disturbed:\n%s", log)
	}
}
