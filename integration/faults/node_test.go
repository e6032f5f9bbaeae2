//go:build integration

package faults

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// patience bounds every wait: for an answer, a start, a state. Nothing takes
// nearly as long unless it is stuck.
var patience = 20 * time.Second

// onKafka says that the tests are about an Apache Kafka instead of klamm.
var onKafka = os.Getenv("KLAMM_NODE") == string(harness.Kafka)

// nodeSettings: groups form fast and lose members fast, so that the tests do not
// wait for what takes seconds by default.
var nodeSettings = []string{
	"offsets.topic.num.partitions=4",
	"group.initial.rebalance.delay.ms=0",
	"group.min.session.timeout.ms=100",
}

// shared is the node that the tests share.
var shared harness.Shared

func TestMain(m *testing.M) {
	if onKafka {
		patience *= 3 // it takes longer to start
	}
	code := m.Run()
	shared.End(code != 0)
	os.Exit(code)
}

// sharedNode is the node that the tests share.
func sharedNode(t *testing.T) *harness.Node {
	t.Helper()
	return shared.Node(t, nodeSettings...)
}

// ownNode is a node for one test, with settings of its own.
func ownNode(t *testing.T, settings ...string) *harness.Node {
	t.Helper()
	n := configure(t, settings...)
	n.Format()
	n.Restart()
	return n
}

// configure is ownNode of a node that is neither formatted nor started.
func configure(t *testing.T, settings ...string) *harness.Node {
	t.Helper()
	return harness.Configured(t, "", slices.Concat(nodeSettings, settings)...)
}

// restart ends the process by a signal and starts another one. Connections to
// the node are gone.
func restart(n *harness.Node, s syscall.Signal) {
	n.End(s)
	n.Restart()
}
