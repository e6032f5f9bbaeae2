//go:build integration

package cluster

import (
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// TestPowerCut cuts the power of one node, and then of all: the nodes are a klamm
// whose files lose with the process what was not synced. What was acknowledged is
// lost where all lose their power and nothing was synced, and nowhere else.
func TestPowerCut(t *testing.T) {
	binary := harness.Build(t, "powercut")
	for _, mode := range []struct {
		name, setting string
		survives      bool
	}{
		{"page cache", "log.flush.interval.messages=9223372036854775807", false},
		{"flush", "log.flush.interval.messages=1", true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			c := harness.ConfiguredCluster(t, harness.Klamm, 3, "min.insync.replicas=2", "auto.create.topics.enable=false", mode.setting)
			for _, n := range c.Nodes {
				n.Use(binary)
				n.Format()
			}
			c.Restart()
			w := harness.NewWorld(t, c)
			w.Create("t", 1)
			w.AwaitISR("t", 1, 2, 3)
			values := numbered("before", 50)
			w.Produce("t", values...)

			victim := w.Node(w.Leader("t"))
			victim.Kill()
			more := numbered("without one", 50)
			w.Produce("t", more...)
			values = append(values, more...)
			victim.Restart()
			w.AwaitISR("t", 1, 2, 3)
			w.MustHave("t", values)

			for _, n := range c.Nodes {
				n.Signal(syscall.SIGKILL)
			}
			for _, n := range c.Nodes {
				n.Kill()
			}
			c.Restart()
			w.AwaitISR("t", 1, 2, 3)
			if mode.survives {
				w.MustHave("t", values)
			} else if end := w.Count("t"); end >= int64(len(values)) {
				t.Errorf("nothing was synced, and the log still ends at %d: the power was not cut", end)
			}
			w.Produce("t", "after")
		})
	}
}
