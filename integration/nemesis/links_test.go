//go:build integration

package nemesis

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

var _ = register(scenario{
	number: 11, name: "controller-cut-off",
	does: "the active controller is cut off from the other two and still reaches the brokers; another takes over",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.active()
			for _, other := range w.otherControllers(victim) {
				w.net.Cut(victim, other)
			}
			w.fault("cut controller %d from the others", victim)
			w.awaitController(victim)
			w.goesOn()
			w.rest(2 * session)
			w.goesOn()
			w.mend()
			w.goesOn()
		}
	},
})

var _ = register(scenario{
	number: 12, name: "one-way-between-controllers",
	does: "what the active controller sends to another one is lost, and the reverse arrives; at most one election each time",
	run: func(w *world) {
		for w.next(time.Second) {
			active, epoch := w.office()
			others := w.otherControllers(active)
			deaf := others[w.rand.IntN(len(others))]
			w.fault("nothing that %d sends arrives at %d", active, deaf)
			w.net.Drop(active, deaf)
			w.goesOn()
			w.rest(3 * session)
			w.goesOn()
			w.mend()
			w.goesOn()
			w.rest(session)
			w.elected(epoch, 1)
		}
	},
})

var _ = register(scenario{
	number: 13, name: "leader-without-followers", stated: true, atLeast: 40 * time.Second,
	does: "a leader is cut off from the other brokers, not from clients and controllers: alone in sync it acknowledges nothing",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			led := w.ledBy(victim)
			w.fault("cut %d, which leads %v, from the other brokers", victim, led)
			for _, other := range w.brokers() {
				if other != victim {
					w.net.Cut(victim, other)
				}
			}
			w.Await("it to be alone in sync where it leads, and out of sync elsewhere", func() bool {
				known := w.Partitions(topic)
				return len(known) == partitions && !slices.ContainsFunc(known, func(p kmsg.MetadataResponseTopicPartition) bool {
					return slices.Contains(p.ISR, victim) && (p.Leader != victim || len(p.ISR) > 1)
				})
			})
			w.rest(500 * time.Millisecond) // acknowledgements that are on their way
			before := w.load.acked()
			w.rest(session)
			after := w.load.acked()
			for p := range int32(partitions) {
				grown, mute := after[p]-before[p], slices.Contains(w.ledBy(victim), p)
				if mute && grown > 0 {
					w.T.Errorf("partition %d acknowledged %d records with one replica in sync", p, grown)
				}
				if !mute && grown == 0 {
					w.T.Errorf("partition %d, which two others have, acknowledged nothing", p)
				}
			}
			w.mend()
			w.goesOn()
			w.awaitWhole()
		}
	},
})

var _ = register(scenario{
	number: 14, name: "broker-without-controllers",
	does: "a broker is cut off from the controllers only: it is fenced, and what it led is led by others",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			w.fault("cut %d from the controllers", victim)
			for _, controller := range w.controllerIDs() {
				w.net.Cut(victim, controller)
			}
			w.awaitNewLeaderBut(victim)
			w.goesOn()
			w.rest(session)
			w.goesOn()
			w.mend()
			w.awaitWhole()
		}
	},
})

var _ = register(scenario{
	number: 15, name: "ring", atLeast: 40 * time.Second,
	does: "every node reaches two others only, other ones each ten seconds; afterwards leaders change twice at most",
	run: func(w *world) {
		for time.Now().Before(w.until) {
			ring := w.ids()
			w.rand.Shuffle(len(ring), func(i, j int) { ring[i], ring[j] = ring[j], ring[i] })
			w.net.Heal()
			for i, a := range ring {
				for j := i + 2; j < len(ring) && !(i == 0 && j == len(ring)-1); j++ {
					w.net.Cut(a, ring[j])
				}
			}
			w.fault("a ring of %v", ring)
			w.rest(10 * time.Second)
		}
		before := w.leaderEpochs()
		w.mend()
		w.goesOn()
		w.awaitWhole()
		w.rest(2 * session)
		for p, after := range w.leaderEpochs() {
			if after-before[p] > 2 {
				w.T.Errorf("partition %d has got %d other leaders after all was mended", p, after-before[p])
			}
		}
	},
})

// slowBytes is less than the load is, in a second.
const slowBytes = 2500

var _ = register(scenario{
	number: 16, name: "slow-link", atLeast: 75 * time.Second,
	does: "a follower's links carry less than is written: it leaves the in-sync sets, and does not come and go",
	run: func(w *world) {
		slow := w.brokers()[w.rand.IntN(3)]
		w.stop(slow) // it leads nothing then
		w.start(slow)
		w.awaitWhole()
		w.fault("the links to %d are slow", slow)
		for _, other := range w.brokers() {
			if other != slow {
				w.net.Slow(other, slow, slowBytes)
			}
		}
		began := time.Now()
		w.Await("it to be out of sync", func() bool {
			known := w.Partitions(topic)
			return len(known) == partitions && !slices.ContainsFunc(known, func(p kmsg.MetadataResponseTopicPartition) bool {
				return slices.Contains(p.ISR, slow)
			})
		})
		w.T.Logf("out of sync after %v", time.Since(began).Round(time.Millisecond))
		for w.next(5 * time.Second) {
			w.goesOn()
		}
		minutes := time.Since(began).Minutes()
		w.mend()
		w.awaitWhole()
		for p := range int32(partitions) {
			// Twice for the restart, twice for the slow link.
			if changes := w.cameAndWent(p, slow); float64(changes) > 4+2*minutes {
				w.T.Errorf("broker %d came into the in-sync set of partition %d or left it %d times in %.1f minutes", slow, p, changes, minutes)
			}
		}
	},
})

var _ = register(scenario{
	number: 26, name: "evidence-that-lies",
	does: "connections of a node that lives are reset, and refused: one election or fencing each time at most, and it is back at once",
	run: func(w *world) {
		for w.next(time.Second) {
			active, epoch := w.office()
			if w.rand.IntN(2) == 0 {
				w.fault("connections to controller %d are reset", active)
				w.net.Reject(harness.ControllerPort, active)
				w.rest(session / 3) // brokers that are silent for longer are fenced
				w.mend()
				w.goesOn()
				w.rest(session)
				w.elected(epoch, 2) // it may take the office back
			} else {
				victim := w.leader(w.anyPartition())
				before := w.leaderEpochs()
				w.fault("connections to broker %d are reset", victim)
				w.net.Reject(0, victim)
				w.rest(session / 3)
				w.mend()
				mended := time.Now()
				w.goesOn()
				w.awaitWhole()
				w.T.Logf("back in sync %v after the mend", time.Since(mended).Round(time.Millisecond))
				for p, after := range w.leaderEpochs() {
					if after-before[p] > 2 {
						w.T.Errorf("partition %d has got %d other leaders for one lie", p, after-before[p])
					}
				}
				w.elected(epoch, 1)
			}
		}
	},
})

// mend lets everything through again.
func (w *world) mend() {
	w.T.Helper()
	w.fault("all links are whole")
	w.net.Heal()
}

func (w *world) controllerIDs() []int32 {
	return slices.DeleteFunc(w.ids(), func(id int32) bool { return id <= 100 })
}

func (w *world) otherControllers(active int32) []int32 {
	return slices.DeleteFunc(w.controllerIDs(), func(id int32) bool { return id == active })
}

// office is who is the active controller, and in which epoch.
func (w *world) office() (active, epoch int32) {
	w.T.Helper()
	w.Await("a controller", func() bool {
		resp := harness.Ask[*kmsg.DescribeQuorumResponse](w.World, harness.QuorumRequest("__cluster_metadata", 0))
		if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			return false
		}
		p := resp.Topics[0].Partitions[0]
		active, epoch = p.LeaderID, p.LeaderEpoch
		return active > 0
	})
	return active, epoch
}

// elected fails where more controllers were since an epoch.
func (w *world) elected(since, most int32) {
	w.T.Helper()
	active, epoch := w.office()
	w.T.Logf("controller %d, %d epochs on", active, epoch-since)
	if epoch-since > most {
		w.T.Errorf("%d elections of a controller, want %d at most", epoch-since, most)
	}
}

// ledBy is the partitions that a broker leads.
func (w *world) ledBy(id int32) (led []int32) {
	w.T.Helper()
	for _, p := range w.Partitions(topic) {
		if p.Leader == id {
			led = append(led, p.Partition)
		}
	}
	return led
}

// leaderEpochs are those of all partitions.
func (w *world) leaderEpochs() (epochs [partitions]int32) {
	w.T.Helper()
	w.Await("all partitions", func() bool {
		known := w.Partitions(topic)
		for _, p := range known {
			epochs[p.Partition] = p.LeaderEpoch
		}
		return len(known) == partitions
	})
	return epochs
}

// awaitNewLeaderBut is awaitNewLeader as others than that broker tell, which does not
// hear of it.
func (w *world) awaitNewLeaderBut(old int32) {
	w.T.Helper()
	other := w.brokers()[old%int32(len(w.Nodes))]
	w.Await(fmt.Sprintf("others to lead than %d", old), func() bool {
		known := w.partitionsAt(other)
		return len(known) == partitions && !slices.ContainsFunc(known, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader == old || p.Leader < 0
		})
	})
}

// cameAndWent is how often a broker came into a partition's in-sync set, or left it.
func (w *world) cameAndWent(p, id int32) (changes int) {
	w.T.Helper()
	text := harness.MustRun(w.T, "metadata", "history", "--json", w.All()[0].Data(), "partition", fmt.Sprintf("%s/%d", topic, p))
	was := true
	for line := range strings.Lines(text) {
		var c change
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			w.T.Fatalf("%s: %v", line, err)
		}
		for _, field := range c.Changes {
			var isr []int32
			if field.Path != "isr" {
				continue
			}
			if err := json.Unmarshal(field.To, &isr); err != nil {
				w.T.Fatalf("%s: %v", line, err)
			}
			if is := slices.Contains(isr, id); is != was {
				was = is
				changes++
			}
		}
	}
	return changes
}
