//go:build integration

package cluster

import (
	"syscall"
	"testing"
	"time"
)

// A leader dies, and comes back.
func TestLeaderKilled(t *testing.T) {
	w := start(t)
	w.Create("t", 3)
	w.AwaitISR("t", 1, 2, 3)
	acked := numbered("before", 30)
	w.Produce("t", acked...)
	for range 3 {
		victim := w.Leader("t")
		w.Node(victim).Kill()
		during := numbered("without-"+string(rune('0'+victim)), 30)
		w.Produce("t", during...)
		acked = append(acked, during...)
		w.AwaitISR("t", without(victim)...)
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	w.MustHave("t", acked)
	w.SameLogs("t")
}

// A follower stands still for longer than replica.lag.time.max.ms, and goes on.
func TestFollowerStopped(t *testing.T) {
	w := start(t, "replica.lag.time.max.ms=2000", "broker.session.timeout.ms=60000")
	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	follower := w.Leader("t")%3 + 1
	acked := numbered("before", 10)
	w.Produce("t", acked...)
	w.Node(follower).Signal(syscall.SIGSTOP)
	during := numbered("during", 10)
	w.Produce("t", during...)
	w.AwaitISR("t", without(follower)...)
	w.Node(follower).Signal(syscall.SIGCONT)
	w.AwaitISR("t", 1, 2, 3)
	w.MustHave("t", append(acked, during...))
	w.SameLogs("t")
}

// The power fails, as far as a process can tell.
func TestAllKilledAtOnce(t *testing.T) {
	w := start(t, "broker.session.timeout.ms=3000")
	w.Create("t", 6)
	w.AwaitISR("t", 1, 2, 3)
	acked := numbered("first", 60)
	w.Produce("t", acked...)
	for range 2 {
		for _, n := range w.Nodes {
			n.Signal(syscall.SIGKILL)
		}
		for _, n := range w.Nodes {
			n.Kill()
		}
		began := time.Now()
		w.Restart()
		w.AwaitISR("t", 1, 2, 3)
		t.Logf("all in sync again after %v", time.Since(began))
		w.MustHave("t", acked)
		w.Produce("t", "more-"+began.String())
		acked = append(acked, "more-"+began.String())
	}
	w.SameLogs("t")
}
