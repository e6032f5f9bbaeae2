//go:build integration

package nemesis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// Where the power is cut, brokers are a klamm whose files lose with the process what
// was not synced (the build tag powercut, storage/vfs): kill -9 is the cut.

var _ = register(scenario{
	number: 4, name: "power-cut",
	does: "the power of one broker is cut; it comes back without what it had not synced, and leads nothing until it has it again",
	run: func(w *world) {
		w.onPower()
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			if w.rand.IntN(3) == 0 {
				victim = w.follower(w.anyPartition())
			}
			w.cutPower(victim)
			w.awaitNewLeader(victim)
			if w.rand.IntN(2) == 0 {
				w.goesOn()
			}
			w.start(victim)
			w.goesOn()
			w.awaitWhole()
		}
		w.offPower()
	},
})

var _ = register(scenario{
	number: 5, name: "power-cut-everywhere", stated: true, settings: []string{"log.flush.interval.messages=1"},
	does: "the power of all brokers is cut in one moment; with log.flush.interval.messages=1 nothing acknowledged is lost",
	run:  cutAll,
})

var _ = register(scenario{
	number: 104, name: "control-power-cut-everywhere", loses: true, unclean: true,
	does: "the same with the flush mode that a power cut of all brokers does not survive: records are lost",
	run:  cutAll,
})

func cutAll(w *world) {
	w.onPower()
	for w.next(2 * time.Second) {
		w.cutPower(w.brokers()...)
		w.start(w.brokers()...)
		w.goesOn()
		w.awaitWhole()
	}
	w.offPower()
}

var _ = register(scenario{
	number: 6, name: "last-replica-power-cut", atLeast: 30 * time.Second,
	does: "a leader is left alone in sync, and its power is cut; it is not elected while a replica that left in order may be",
	run: func(w *world) {
		w.onPower()
		for w.next(time.Second) {
			last := w.leader(w.anyPartition())
			others := slices.DeleteFunc(w.brokers(), func(id int32) bool { return id == last })
			w.rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
			for _, id := range others {
				w.stop(id)
			}
			w.Await("it to be alone in sync", func() bool {
				known := w.Partitions(topic)
				return len(known) == partitions && !slices.ContainsFunc(known, func(p kmsg.MetadataResponseTopicPartition) bool {
					return !slices.Equal(p.ISR, []int32{last})
				})
			})
			w.rest(time.Second)
			w.cutPower(last)
			back := append([]int32{last}, others...)
			if w.rand.IntN(2) == 0 {
				back = append(others, last) // the damaged one comes last
			}
			for _, id := range back {
				w.start(id)
				w.rest(time.Second)
				for _, p := range w.partitionsAt(id) {
					if p.Leader == last && !slices.Contains(p.ISR, others[0]) && !slices.Contains(p.ISR, others[1]) {
						w.T.Errorf("%d, whose power was cut, leads partition %d with %v in sync", last, p.Partition, p.ISR)
					}
				}
			}
			w.goesOn()
			w.awaitWhole()
		}
		w.offPower()
	},
})

// partitionsAt is what a broker that lives says of the topic's partitions, as soon as
// the client has found it.
func (w *world) partitionsAt(id int32) (known []kmsg.MetadataResponseTopicPartition) {
	w.T.Helper()
	w.Await(fmt.Sprintf("broker %d to answer", id), func() bool {
		resp, err := w.Client.Broker(int(id)).Request(w.Within(), harness.MetadataRequest(topic))
		if err != nil {
			return false
		}
		t := resp.(*kmsg.MetadataResponse).Topics[0]
		known = t.Partitions
		return t.ErrorCode == 0
	})
	return known
}

// onPower restarts the brokers, one by one, as such that a kill takes the power from.
func (w *world) onPower() {
	w.T.Helper()
	began := time.Now()
	w.exchange(built(w.T, "powercut"))
	w.until = w.until.Add(time.Since(began))
}

// offPower has them be as they were, so that their files are there to be looked at.
func (w *world) offPower() {
	w.T.Helper()
	w.exchange(harness.Binary(w.T))
}

func (w *world) exchange(binary string) {
	w.T.Helper()
	w.fault("all brokers are restarted as another binary")
	for _, id := range w.brokers() {
		w.stop(id)
		w.Node(id).Use(binary)
		w.start(id)
		w.awaitWhole()
	}
	w.goesOn()
}

// cutPower kills brokers whose power a kill cuts.
func (w *world) cutPower(ids ...int32) {
	w.T.Helper()
	w.fault("the power of %v is cut", ids)
	w.kill(ids...)
	for _, id := range ids {
		w.T.Logf("%d has %d bytes of %s on its disk, of %d records that were acknowledged", id, w.onDisk(id), topic, w.acknowledged())
	}
}

// onDisk is how many bytes of the topic a broker's disk has.
func (w *world) onDisk(id int32) (size int64) {
	w.T.Helper()
	files, err := filepath.Glob(w.Node(id).Data(fmt.Sprint(topic, "-[0-9]*"), "*.log"))
	if err != nil {
		w.T.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			w.T.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// acknowledged is how many records of the topic were.
func (w *world) acknowledged() (sum int) {
	for _, acked := range w.load.acked() {
		sum += acked
	}
	return sum
}
