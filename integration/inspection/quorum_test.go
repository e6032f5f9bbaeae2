//go:build integration

package inspection

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// quorum is what klamm quorum status --json says.
type quorum struct {
	Leader, Epoch int32
	HighWatermark int64
	Snapshot      *struct{ EndOffset, Bytes int64 }
	SnapshotError string
	Voters        []replica
	Observers     []replica
}

type replica struct {
	Node         int32
	LogEndOffset int64
	Lag, LagMs   int64
}

func (w *world) quorum(args ...string) quorum {
	w.T.Helper()
	var q quorum
	if err := json.Unmarshal([]byte(w.klamm(append([]string{"quorum", "status", "--json"}, args...)...)), &q); err != nil {
		w.T.Fatal(err)
	}
	return q
}

func nodes(replicas []replica) []int32 {
	var ids []int32
	for _, r := range replicas {
		ids = append(ids, r.Node)
	}
	return ids
}

// TestQuorumStatus: every broker and every controller tells the same quorum; a voter
// that stands still falls behind in it, and an observer too (B195 of package faults).
func TestQuorumStatus(t *testing.T) {
	w := newWorld(t, harness.StartSplit(t, make([]harness.Kind, 3), make([]harness.Kind, 2), "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=2", "metadata.log.max.record.bytes.between.snapshots=3000"))
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, 3, 2)
	}
	w.Await("a snapshot", func() bool { return w.quorum("--bootstrap-server", w.Nodes[0].Address).Snapshot != nil })
	first := w.quorum("--bootstrap-server", w.Nodes[0].Address)
	for _, n := range w.All() {
		args := []string{"--bootstrap-server", n.Address}
		if n.Address == "" {
			args = []string{"--bootstrap-controller", n.Controller}
		}
		q := w.quorum(args...)
		if q.Leader != first.Leader || q.Epoch != first.Epoch || q.HighWatermark < first.HighWatermark || q.SnapshotError != "" ||
			q.Snapshot == nil || q.Snapshot.Bytes <= 0 ||
			!slices.Equal(nodes(q.Voters), []int32{101, 102, 103}) || !slices.Equal(nodes(q.Observers), []int32{1, 2}) {
			t.Errorf("%v say %+v, and %s %+v", args, q, w.Nodes[0].Address, first)
		}
	}

	voter := int32(101)
	if first.Leader == voter {
		voter = 102
	}
	stalled := []*harness.Node{w.Controllers[voter-101], w.Nodes[1]}
	for _, n := range stalled {
		n.Signal(syscall.SIGSTOP)
	}
	w.Await("both behind", func() bool {
		q := w.quorum("--bootstrap-server", w.Nodes[0].Address)
		return behind(q.Voters, voter) && behind(q.Observers, 2)
	})
	for _, n := range stalled {
		n.Signal(syscall.SIGCONT)
	}
	w.Await("nobody behind", func() bool {
		q := w.quorum("--bootstrap-server", w.Nodes[0].Address)
		return !slices.ContainsFunc(slices.Concat(q.Voters, q.Observers), func(r replica) bool { return r.Lag > 1 })
	})

	w.killAll(w.Controllers...)
	if out, text, ok := harness.Run(t, "quorum", "status", "--bootstrap-server", w.Nodes[0].Address, "--timeout", "1s"); ok {
		t.Errorf("without controllers this is the quorum:\n%s", out)
	} else {
		says(t, text, "no answer after 1s, at last: ")
	}
}

func behind(replicas []replica, node int32) bool {
	return slices.ContainsFunc(replicas, func(r replica) bool { return r.Node == node && r.Lag > 0 && r.LagMs > 0 })
}
