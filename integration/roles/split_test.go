//go:build integration

package roles

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

var three = []harness.Kind{"", "", ""}

// metadataLog is the first segment of a node's metadata log.
func metadataLog(t *testing.T, n *harness.Node) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Data(), "__cluster_metadata-0", "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Three controllers and three brokers: the active controller dies, a broker dies,
// and the brokers' metadata logs are the controllers'.
func TestSplit(t *testing.T) {
	w := start(t, three, three)
	w.create("t", []int32{1, 2, 3}, []int32{2, 3, 1}, []int32{3, 1, 2})
	w.produce("t", 3, 100)
	w.consume("t", "g", 300)

	w.Await("three observers", func() bool { _, ends := w.observers(); return len(ends) == 3 })
	w.Await("three registered controllers", func() bool { return w.registered() == 3 })
	active, _ := w.observers()
	w.Controllers[active-101].Kill()
	w.create("after", []int32{1, 2, 3})
	w.produce("after", 1, 100)
	w.Controllers[active-101].Restart()

	w.Node(2).Kill()
	w.awaitISR("after", []int32{1, 3})
	w.produce("after", 1, 100)
	w.Node(2).Restart()
	w.awaitISR("after", []int32{1, 2, 3})
	w.consume("after", "g2", 200)
	w.Await("three registered controllers again", func() bool { return w.registered() == 3 })

	for _, n := range w.Nodes {
		n.Stop()
	}
	for _, n := range w.Controllers {
		n.Stop()
	}
	longest := metadataLog(t, w.Controllers[0])
	for _, n := range append(w.Controllers[1:], w.Nodes...) {
		log := metadataLog(t, n)
		if len(log) > len(longest) {
			log, longest = longest, log
		}
		if !bytes.HasPrefix(longest, log) {
			t.Error("two nodes have different metadata logs")
		}
	}
}

// A broker whose metadata is gone gets a snapshot first.
func TestBrokerFetchesASnapshot(t *testing.T) {
	w := start(t, []harness.Kind{harness.Klamm}, []harness.Kind{harness.Klamm, harness.Klamm}, "metadata.log.max.record.bytes.between.snapshots=2000")
	for _, topic := range []string{"a", "b", "c"} {
		w.create(topic, []int32{1, 2}, []int32{2, 1}, []int32{1, 2}, []int32{2, 1})
	}
	w.Await("a snapshot", func() bool {
		found, err := filepath.Glob(filepath.Join(w.Controllers[0].Data(), "__cluster_metadata-0", "*[1-9]-*.checkpoint"))
		return err == nil && len(found) > 0
	})
	w.Node(2).Stop()
	if err := os.RemoveAll(filepath.Join(w.Node(2).Data(), "__cluster_metadata-0")); err != nil {
		t.Fatal(err)
	}
	w.Node(2).Restart()
	w.awaitISR("c", []int32{2, 1}, []int32{2, 1}, []int32{2, 1}, []int32{2, 1})
	w.produce("c", 4, 10)
	if !strings.Contains(w.Node(2).Log(), "metadata replaced by a snapshot") {
		t.Error("the broker did without a snapshot")
	}
}
