//go:build integration

package voters

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// A controller of another cluster means to be a peer of ours. Both sides say so by
// name, and go on.
func TestAnotherCluster(t *testing.T) {
	t.Parallel()
	w := start(t, 1, 0)
	ours := w.controller(101)
	const other = "YW5vdGhlci1jbHVzdGVyLWlk"
	foreign := harness.Foreign(t, other, 104, func(own string) string {
		return "101@" + ours.Controller + ":" + ours.Meta("directory.id") + ",104@" + own + ":" + protocol.NewUUID().String()
	})
	for _, n := range []*harness.Node{ours, foreign} {
		w.Logged(n, `of cluster \"`+other+`\"`)
		w.Logged(n, `of cluster \"`+ours.Meta("cluster.id")+`\"`)
	}
	if q := w.quorum(101); q.Leader != 101 || !slices.Equal(ids(q.Voters), []int{101}) || len(ids(q.Observers)) != 1 {
		t.Errorf("%+v", q)
	}
	w.load().end()
}

// A quorum that its configuration names becomes a dynamic one while it works. Then a
// voter's lost disk can be replaced.
func TestStaticBecomesDynamic(t *testing.T) {
	t.Parallel()
	c := harness.StartSplit(t, make([]harness.Kind, 3), make([]harness.Kind, 1), "offsets.topic.replication.factor=1")
	w := &world{harness.NewWorld(t, c)}
	l := w.load()
	all := []int{101, 102, 103}
	_, errOut, ok := harness.Run(t, "quorum", "remove", "103", "--bootstrap-controller", w.addresses(all))
	if ok || !strings.Contains(errOut, "kraft.version=1") {
		t.Errorf("a voter of a static quorum was removed: %s", errOut)
	}
	out := w.tool("java", "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", w.Nodes[0].Address, "upgrade", "--feature", "kraft.version=1")
	if !strings.Contains(out, "kraft.version was upgraded to 1") {
		t.Fatal(out)
	}
	haveTheirDirectories := func(voters []replica) {
		t.Helper()
		for _, v := range voters {
			if directory := w.controller(v.Node).Meta("directory.id"); v.DirectoryID != directory {
				t.Errorf("voter %+v has directory %s", v, directory)
			}
		}
	}
	q := w.awaitVoters(all, all...)
	haveTheirDirectories(q.Voters)
	l.goesOn()
	for _, id := range all { // each starts again on what it has
		w.controller(id).Stop()
		w.controller(id).Restart()
		l.goesOn()
	}
	q = w.awaitVoters(all, all...)
	lost := without(all, q.Leader)[0]
	left := without(all, lost)
	n := w.controller(lost)
	n.Kill()
	n.Configure("controller.quorum.voters=", "controller.quorum.bootstrap.servers="+w.addresses(all))
	n.WipeDynamic()
	n.Restart()
	w.change("replace", lost, left...)
	q = w.awaitVoters(all, all...)
	haveTheirDirectories(q.Voters)
	w.controller(q.Leader).Kill()
	l.goesOn()
	l.end()
	w.controller(q.Leader).Restart()
	w.sameMetadata(w.Controllers...)
}

// With controller.quorum.auto.join.enable controllers join by themselves, also with a
// new disk in the place of a lost one. One that listens elsewhere says so.
func TestAutoJoin(t *testing.T) {
	t.Parallel()
	w := start(t, 1, 2, "controller.quorum.auto.join.enable=true")
	all := []int{101, 102, 103}
	q := w.awaitVoters(all, 101)
	lost := without(all[1:], q.Leader)[0]
	left := without(all, lost)
	n := w.controller(lost)
	n.Kill()
	n.WipeDynamic()
	n.Restart()
	w.Await("the new disk to vote", func() bool {
		return slices.ContainsFunc(w.quorum(left...).Voters, func(v replica) bool {
			return v.Node == lost && v.DirectoryID == n.Meta("directory.id")
		})
	})

	n.Stop()
	n.Move()
	n.Restart()
	w.Await("the new address to be known", func() bool {
		out := harness.MustRun(t, "quorum", "status", "--bootstrap-controller", w.addresses(left))
		return strings.Contains(out, "CONTROLLER://"+n.Controller)
	})
	// The others reach it there: two of three are enough.
	leader := w.quorum(left...).Leader
	other := left[0] + left[1] - leader
	w.controller(other).Kill()
	l := w.load()
	l.goesOn()
	l.end()
	if out := strconv.Itoa(w.quorum(lost, leader).Leader); out == "-1" {
		t.Error("nobody leads")
	}
}

// A disk is lost and formatted by the very command of the first, with the same
// directory id. It is not the voter that it was: its votes and records are gone.
func TestWipedByTheSameCommand(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 0)
	all := []int{101, 102, 103}
	q := w.quorum(all...)
	lost := without(all, q.Leader)[0]
	left := without(all, lost)
	n := w.controller(lost)
	directory := n.Meta("directory.id")
	n.Kill()
	n.WipeAlike()
	if got := n.Meta("directory.id"); got != directory {
		t.Fatalf("directory %s, before %s", got, directory)
	}
	n.Restart()
	for _, at := range []*harness.Node{n, w.controller(q.Leader)} {
		w.Logged(at, "a wiped disk may not take a voter's place")
	}
	// Two of three are needed, and it is none of them.
	other := left[0] + left[1] - q.Leader
	w.controller(other).Kill()
	w.Await("nobody to lead", func() bool {
		_, _, ok := harness.Run(t, "quorum", "status", "--bootstrap-controller", w.addresses(all), "--timeout", "1s")
		return !ok
	})
	w.controller(other).Restart()
	w.awaitVoters(all, left...)
	n.Stop()
	n.WipeDynamic()
	n.Restart()
	w.change("replace", lost, left...)
	w.awaitVoters(all, all...)
	w.sameMetadata(w.Controllers...)
}
