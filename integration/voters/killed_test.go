//go:build integration

package voters

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

func glob(t *testing.T, pattern, but string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == but })
}

const fed = "adding a voter: it is fed until it has everything"

// adding begins to add a controller that does not go on, and returns once the leader
// feeds it; the channel tells how the command ended.
func (w *world) adding(id int, timeout string, at ...int) <-chan string {
	w.T.Helper()
	w.Await("the new one to follow", func() bool { return slices.Contains(ids(w.quorum(at...).Observers), id) })
	leader := w.quorum(at...).Leader
	before := strings.Count(w.controller(leader).Log(), fed)
	w.controller(id).Signal(syscall.SIGSTOP)
	ended := make(chan string, 1)
	go func() {
		out, errOut, ok := harness.Run(w.T, "quorum", "add", fmt.Sprint(id), "--bootstrap-controller", w.addresses(at), "--timeout", timeout)
		ended <- fmt.Sprint(ok, " ", out, errOut)
	}()
	w.Await("the leader to feed the new one", func() bool { return strings.Count(w.controller(leader).Log(), fed) > before })
	return ended
}

// The controller that adds another is killed in the middle. The next one finds a
// member that no record names, and lets it go; added again it becomes a voter.
func TestAdderIsKilled(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 1)
	all := []int{101, 102, 103}
	l := w.load()
	leader := w.quorum(all...).Leader
	ended := w.adding(104, "20s", all...)
	w.controller(leader).Kill()
	left := without(all, leader)
	w.Await("another controller", func() bool { return w.quorum(left...).Leader != leader })
	q := w.quorum(left...)
	if !slices.Equal(ids(q.Voters), all) {
		t.Errorf("voters %v", ids(q.Voters))
	}
	l.goesOn()
	w.controller(104).Signal(syscall.SIGCONT)
	t.Log("the command ended: " + <-ended)
	w.controller(leader).Restart()
	if slices.Equal(ids(w.quorum(left...).Voters), all) { // the command may have made it, at the next leader
		w.change("add", 104, left...)
	}
	w.awaitVoters([]int{101, 102, 103, 104}, left...)
	l.goesOn()
	l.end()
	w.sameMetadata(append(slices.Clone(w.Controllers), w.Nodes...)...)
}

// The controller that is being added is killed: it gets no vote, nobody waits for it,
// and it can be added later. Killed as a voter it votes again, and may not be
// added again (B066 of package faults).
func TestJoinerIsKilled(t *testing.T) {
	t.Parallel()
	w := start(t, 1, 1)
	l := w.load()
	ended := w.adding(102, "4s", 101)
	w.controller(102).Kill()
	if how := <-ended; !strings.HasPrefix(how, "false") || !strings.Contains(how, "REQUEST_TIMED_OUT") {
		t.Errorf("the command ended: %s", how)
	}
	if q := w.quorum(101); !slices.Equal(ids(q.Voters), []int{101}) {
		t.Errorf("voters %v", ids(q.Voters))
	}
	l.goesOn()
	w.Logged(w.controller(101), "a node is no member any more")
	w.controller(102).Restart()
	w.change("add", 102, 101)
	w.awaitVoters([]int{101, 102}, 101)
	// Its vote is needed now; and it is killed and started again.
	w.controller(102).Kill()
	w.controller(102).Restart()
	if out, errOut, ok := harness.Run(t, "quorum", "add", "102", "--bootstrap-controller", w.addresses([]int{101})); ok || !strings.Contains(errOut, "controller 102 is a voter already") {
		t.Errorf("a voter is added again: %s%s", out, errOut)
	}
	l.goesOn()
	l.end()
	w.sameMetadata(append(slices.Clone(w.Controllers), w.Nodes...)...)
}

// What would leave no living majority is refused at once, and changes nothing.
func TestNoMajorityIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, 3, 0)
	all := []int{101, 102, 103}
	leader := w.quorum(all...).Leader
	left := without(all, leader)
	w.controller(left[0]).Kill()
	out, errOut, ok := harness.Run(t, "quorum", "remove", fmt.Sprint(left[1]), "--bootstrap-controller", w.addresses([]int{leader}))
	if ok || !strings.Contains(errOut, "which is no majority") {
		t.Errorf("one of two living voters was removed: %s%s", out, errOut)
	}
	w.change("remove", left[0], leader)
	w.awaitVoters(slices.Sorted(slices.Values([]int{leader, left[1]})), leader)
}
