//go:build integration

package nemesis

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/nemesis/history"
)

// next waits for about so long, and tells whether there is time for another fault.
func (w *world) next(mean time.Duration) bool {
	w.T.Helper()
	w.rest(mean/2 + time.Duration(w.rand.Int64N(int64(mean))))
	return time.Now().Before(w.until)
}

// rest lets the load run for a while.
func (w *world) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.T.Context().Done():
	}
}

// fault takes down what is done to the cluster, for the log and the history.
func (w *world) fault(format string, args ...any) {
	w.T.Helper()
	text := fmt.Sprintf(format, args...)
	w.history.Add(history.Event{Kind: history.Fault, Partition: -1, Note: text})
	w.T.Log(text)
}

// kill is kill -9.
func (w *world) kill(ids ...int32) {
	w.T.Helper()
	w.fault("kill %v", ids)
	for _, id := range ids { // all in one moment
		w.Node(id).Signal(syscall.SIGKILL)
	}
	for _, id := range ids {
		w.Node(id).Kill()
		w.dead[id] = true
		delete(w.frozen, id)
	}
}

// stop stops a node in order.
func (w *world) stop(id int32) {
	w.T.Helper()
	w.fault("stop %d", id)
	w.Node(id).Stop()
	w.dead[id] = true
}

// start starts nodes that are dead and waits until they serve.
func (w *world) start(ids ...int32) {
	w.T.Helper()
	w.fault("start %v", ids)
	began := time.Now()
	for _, id := range ids {
		w.Node(id).Launch()
		delete(w.dead, id)
	}
	for _, id := range ids {
		w.Node(id).Await()
	}
	w.T.Logf("started in %v", time.Since(began).Round(time.Millisecond))
}

// freeze has a node stand still.
func (w *world) freeze(id int32) {
	w.T.Helper()
	w.fault("freeze %d", id)
	w.Node(id).Signal(syscall.SIGSTOP)
	w.frozen[id] = true
}

// thaw has it go on.
func (w *world) thaw(id int32) {
	w.T.Helper()
	w.fault("thaw %d", id)
	w.Node(id).Signal(syscall.SIGCONT)
	delete(w.frozen, id)
}

// wipe empties a dead node's disk.
func (w *world) wipe(id int32) {
	w.T.Helper()
	w.fault("wipe %d", id)
	if id > 100 {
		w.Node(id).WipeDynamic()
		return
	}
	w.Node(id).Wipe()
}

// heal undoes what was done.
func (w *world) heal() {
	w.T.Helper()
	w.fault("heal; dead are %q, frozen %q", sorted(w.dead), sorted(w.frozen))
	w.net.Heal()
	for id := range w.frozen {
		w.thaw(id)
	}
	var dead []int32
	for id := range w.dead {
		dead = append(dead, id)
	}
	if len(dead) > 0 {
		w.start(dead...)
	}
}

// goesOn waits until each partition has acknowledged more than when it was called.
func (w *world) goesOn() {
	w.T.Helper()
	began := time.Now()
	before := w.load.acked()
	w.Await("more records in each partition", func() bool {
		now := w.load.acked()
		for p := range now {
			if now[p] < before[p]+3 {
				return false
			}
		}
		return true
	})
	w.T.Logf("the load goes on in all partitions after %v", time.Since(began).Round(time.Millisecond))
}

// anyPartition is one of the topic's.
func (w *world) anyPartition() int32 { return w.rand.Int32N(partitions) }

// partition is what a living broker says of one of the topic's partitions, once it
// has a leader.
func (w *world) partition(p int32) (found kmsg.MetadataResponseTopicPartition) {
	w.T.Helper()
	w.Await(fmt.Sprintf("a leader of partition %d", p), func() bool {
		for _, known := range w.Partitions(topic) {
			if known.Partition == p && known.Leader > 0 {
				found = known
				return true
			}
		}
		return false
	})
	return found
}

// leader is a partition's.
func (w *world) leader(p int32) int32 {
	w.T.Helper()
	return w.partition(p).Leader
}

// follower is one of a partition's that is not its leader.
func (w *world) follower(p int32) int32 {
	w.T.Helper()
	known := w.partition(p)
	others := slices.DeleteFunc(slices.Clone(known.Replicas), func(id int32) bool { return id == known.Leader })
	return others[w.rand.IntN(len(others))]
}

// awaitNewLeader waits until another than this one leads all partitions.
func (w *world) awaitNewLeader(old int32) {
	w.T.Helper()
	w.Await(fmt.Sprintf("others to lead than %d", old), func() bool {
		known := w.Partitions(topic)
		return len(known) == partitions && !slices.ContainsFunc(known, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader == old || p.Leader < 0
		})
	})
}

// awaitWhole waits until all replicas of the topic are in sync.
func (w *world) awaitWhole() {
	w.T.Helper()
	began := time.Now()
	w.AwaitISR(topic, w.replicas...)
	w.T.Logf("all in sync after %v", time.Since(began).Round(time.Millisecond))
}

// active is the active controller, as a broker tells that lives.
func (w *world) active() int32 {
	w.T.Helper()
	return w.Controller()
}
