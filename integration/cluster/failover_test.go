//go:build integration

package cluster

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// leader is the leader of the first partition of a topic.
func (w *world) leader(topic string) int32 {
	w.t.Helper()
	var leader int32
	w.await("a leader of "+topic, func() bool {
		parts := w.partitions(topic)
		if len(parts) == 0 {
			return false
		}
		leader = parts[0].Leader
		return leader > 0
	})
	return leader
}

func without(id int32) []int32 {
	return slices.DeleteFunc([]int32{1, 2, 3}, func(other int32) bool { return other == id })
}

// A leader dies, and comes back.
func TestLeaderKilled(t *testing.T) {
	w := start(t)
	w.create("t", 3)
	w.awaitISR("t", 1, 2, 3)
	acked := numbered("before", 30)
	w.produce("t", acked...)
	for range 3 {
		victim := w.leader("t")
		w.Node(victim).Kill()
		during := numbered("without-"+string(rune('0'+victim)), 30)
		w.produce("t", during...)
		acked = append(acked, during...)
		w.awaitISR("t", without(victim)...)
		w.Node(victim).Restart()
		w.awaitISR("t", 1, 2, 3)
	}
	w.mustHave("t", acked)
	w.sameLogs("t")
}

// A follower stands still for longer than replica.lag.time.max.ms, and goes on.
func TestFollowerStopped(t *testing.T) {
	w := start(t, "replica.lag.time.max.ms=2000", "broker.session.timeout.ms=60000")
	w.create("t", 1)
	w.awaitISR("t", 1, 2, 3)
	follower := w.leader("t")%3 + 1
	acked := numbered("before", 10)
	w.produce("t", acked...)
	w.Node(follower).Signal(syscall.SIGSTOP)
	during := numbered("during", 10)
	w.produce("t", during...)
	w.awaitISR("t", without(follower)...)
	w.Node(follower).Signal(syscall.SIGCONT)
	w.awaitISR("t", 1, 2, 3)
	w.mustHave("t", append(acked, during...))
	w.sameLogs("t")
}

// The power fails, as far as a process can tell.
func TestAllKilledAtOnce(t *testing.T) {
	w := start(t, "broker.session.timeout.ms=3000")
	w.create("t", 6)
	w.awaitISR("t", 1, 2, 3)
	acked := numbered("first", 60)
	w.produce("t", acked...)
	for range 2 {
		for _, n := range w.Nodes {
			n.Signal(syscall.SIGKILL)
		}
		for _, n := range w.Nodes {
			n.Kill()
		}
		began := time.Now()
		w.Restart()
		w.awaitISR("t", 1, 2, 3)
		t.Logf("all in sync again after %v", time.Since(began))
		w.mustHave("t", acked)
		w.produce("t", "more-"+began.String())
		acked = append(acked, "more-"+began.String())
	}
	w.sameLogs("t")
}
