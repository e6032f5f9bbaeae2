//go:build integration

package voters

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// One controller becomes three, five, and three again, the active one among those
// that go, while topics are created and records written all the time.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	w := start(t, 1, 4)
	l := w.load()
	l.goesOn()
	for _, id := range []int{102, 103} {
		w.change("add", id, 101)
		l.goesOn()
	}
	w.awaitVoters([]int{101, 102, 103}, 101)
	for _, id := range []int{104, 105} { // by Kafka's tool
		out := w.kafka("--command-config", w.controller(id).Config(), "add-controller")
		if !strings.Contains(out, "Added controller "+strconv.Itoa(id)) {
			t.Error(out)
		}
		l.goesOn()
	}
	five := []int{101, 102, 103, 104, 105}
	q := w.awaitVoters(five, 101)
	left := five
	for range 2 { // the active one each time
		left = without(left, q.Leader)
		out := w.kafka("remove-controller", "-i", strconv.Itoa(q.Leader), "-d", w.controller(q.Leader).Meta("directory.id"))
		if !strings.Contains(out, "Removed KRaft controller "+strconv.Itoa(q.Leader)) {
			t.Error(out)
		}
		l.goesOn()
		before := q
		q = w.awaitVoters(left, left...)
		if q.Leader == before.Leader || q.Epoch <= before.Epoch {
			t.Errorf("controller %d leads in epoch %d, after %d in epoch %d", q.Leader, q.Epoch, before.Leader, before.Epoch)
		}
	}
	l.goesOn()
	l.end()
	w.sameMetadata(append(slices.Clone(w.Controllers), w.Nodes...)...)
	// Those that were removed go on as observers.
	w.Await("the removed to be observers", func() bool {
		observers := ids(w.quorum(left...).Observers)
		return !slices.ContainsFunc(five, func(id int) bool { return !slices.Contains(left, id) && !slices.Contains(observers, id) })
	})
	// Three of three vote: one may go.
	w.controller(q.Leader).Kill()
	others := without(left, q.Leader)
	w.Await("another controller", func() bool { return w.quorum(others...).Leader != q.Leader })
}

// The active controller removes itself: another leads, in a later epoch (B059 of
// package faults).
func TestRemoveTheActive(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 0)
	all := []int{101, 102, 103}
	before := w.quorum(all...)
	began := time.Now()
	w.change("remove", before.Leader, all...)
	left := without(all, before.Leader)
	q := w.awaitVoters(left, left...)
	t.Logf("controller %d leads in epoch %d after %v", q.Leader, q.Epoch, time.Since(began).Round(time.Millisecond))
	if q.Leader == before.Leader || q.Epoch <= before.Epoch {
		t.Errorf("controller %d leads in epoch %d, after %d in epoch %d", q.Leader, q.Epoch, before.Leader, before.Epoch)
	}
	observes := func() bool { return slices.Contains(ids(w.quorum(left...).Observers), before.Leader) }
	w.Await("the removed to be an observer", observes)
	w.sameMetadata(w.Controllers...)
	// It stays one over a restart, and votes for nobody: of two voters both are needed.
	w.controller(before.Leader).Stop()
	w.controller(before.Leader).Restart()
	w.Await("the removed to be an observer again", observes)
	other := left[0] + left[1] - q.Leader
	w.controller(other).Kill()
	w.Await("the leader to resign", func() bool {
		_, _, ok := harness.Run(t, "quorum", "status", "--bootstrap-controller", w.addresses(left), "--timeout", "1s")
		return !ok
	})
	w.controller(other).Restart()
	w.awaitVoters(left, left...)
	// And it can come back.
	w.change("add", before.Leader, left...)
	w.awaitVoters(all, all...)
	w.sameMetadata(w.Controllers...)
}

// A removed voter was away when it was removed, and while snapshots were taken: it
// comes back as an observer, and the snapshots do not know it. That it believed to
// vote disturbs nobody (B065 of package faults).
func TestRemovedWhileAway(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 0, "metadata.log.max.record.bytes.between.snapshots=20000")
	all := []int{101, 102, 103}
	q := w.quorum(all...)
	away := without(all, q.Leader)[0]
	left := without(all, away)
	w.controller(away).Kill()
	w.change("remove", away, left...)
	w.awaitVoters(left, left...)
	l := w.load()
	w.Await("a snapshot", func() bool { return len(w.checkpoints(left[0])) > 1 && len(w.checkpoints(left[1])) > 1 })
	l.end()
	for _, id := range left {
		for _, file := range w.checkpoints(id) {
			if out := harness.MustRun(t, "metadata", "dump", file); strings.Contains(out, w.controller(away).Meta("directory.id")) {
				t.Errorf("%s still names the removed voter", file)
			}
		}
	}
	// Kafka's tool reads who votes from them.
	files := w.checkpoints(left[0])
	newest := files[len(files)-1]
	out := w.tool("dump-log", "--cluster-metadata-decoder", "--files", newest)
	for _, want := range []string{`KRaftVersion {"version":0,"kRaftVersion":1}`, `KRaftVoters {"version":0,"voters":[{"voterId":` + strconv.Itoa(left[0])} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s:\n%s", want, newest, out)
		}
	}
	before := w.quorum(left...)
	for range 2 {
		w.controller(away).Restart()
		w.Await("the removed to be an observer", func() bool {
			return slices.Contains(ids(w.quorum(left...).Observers), away)
		})
		if now := w.quorum(left...); now.Leader != before.Leader || now.Epoch != before.Epoch {
			t.Errorf("controller %d leads in epoch %d, before %d in epoch %d", now.Leader, now.Epoch, before.Leader, before.Epoch)
		}
		if got := ids(w.quorum(left...).Voters); !slices.Equal(got, left) {
			t.Errorf("voters %v", got)
		}
		w.sameMetadata(w.Controllers...)
		w.controller(away).Stop()
	}
	w.controller(away).Restart()
	w.change("add", away, left...)
	w.awaitVoters(all, all...)
	w.sameMetadata(w.Controllers...)
}

// A voter loses its disk. Nobody takes the new one for it; replace puts it in its
// place, and the cluster works all the time.
func TestWipedVoterIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 0)
	l := w.load()
	all := []int{101, 102, 103}
	q := w.quorum(all...)
	lost := without(all, q.Leader)[0]
	left := without(all, lost)
	n := w.controller(lost)
	old := n.Meta("directory.id")
	n.Kill()
	out, errOut, ok := harness.Run(t, "quorum", "replace", strconv.Itoa(lost), "--bootstrap-controller", w.addresses(left), "--timeout", "1s")
	if ok || !strings.Contains(errOut, "format its new disk with --no-initial-controllers") {
		t.Errorf("replaced by nothing: %s%s", out, errOut)
	}
	n.WipeDynamic()
	began := time.Now()
	n.Restart()
	w.Await("the new disk to be an observer", func() bool { return slices.Contains(ids(w.quorum(left...).Observers), lost) })
	for _, v := range w.quorum(left...).Voters {
		if v.Node == lost && v.DirectoryID != old {
			t.Errorf("the new disk votes: %+v", v)
		}
	}
	w.change("replace", lost, left...)
	took := time.Since(began)
	t.Logf("healed %v after the start on an empty disk", took.Round(time.Millisecond))
	if took > time.Minute {
		t.Error("that was too slow")
	}
	q = w.awaitVoters(all, all...)
	for _, v := range q.Voters {
		if v.Node == lost && v.DirectoryID != n.Meta("directory.id") {
			t.Errorf("the voter is %+v", v)
		}
	}
	l.goesOn()
	// Its vote counts: with it one of the others may go.
	w.controller(q.Leader).Kill()
	l.goesOn()
	l.end()
	w.controller(q.Leader).Restart()
	w.sameMetadata(w.Controllers...)
}

// checkpoints are the snapshots of a controller.
func (w *world) checkpoints(id int) []string {
	w.T.Helper()
	return glob(w.T, w.controller(id).Data()+"/__cluster_metadata-0/*.checkpoint", "00000000000000000000-0000000000.checkpoint")
}
