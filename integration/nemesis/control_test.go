//go:build integration

package nemesis

import (
	"slices"
	"time"
)

// The controls lose records on purpose, and the checker has to find them: what it
// does not find here it would not find elsewhere.

var _ = register(scenario{
	number: 101, name: "control-acks-1", stated: true, loses: true, acks: "1",
	does: "a leader that is cut off acknowledges by itself, with acks=1; the records are lost",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			w.fault("isolate %d", victim)
			w.net.Isolate(victim)
			w.awaitNewLeader(victim)
			w.goesOn()
			w.heal()
			w.awaitWhole()
		}
	},
})

var _ = register(scenario{
	number: 102, name: "control-unclean-election", loses: true, unclean: true,
	configs: map[string]string{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
	does:    "a leader remains alone in sync, and is killed; one is elected that was not in sync, and records are lost",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			for _, other := range w.brokers() {
				if other != victim {
					w.net.Cut(victim, other)
				}
			}
			w.fault("cut %d from the other brokers", victim)
			w.Await("it to be alone in sync", func() bool {
				for _, p := range w.Partitions(topic) {
					if p.Leader == victim && slices.Equal(p.ISR, []int32{victim}) {
						return true
					}
				}
				return false
			})
			w.rest(time.Second)
			w.kill(victim)
			w.awaitNewLeader(victim)
			w.goesOn()
			w.heal()
			w.awaitWhole()
		}
	},
})

var _ = register(scenario{
	number: 103, name: "control-early-acks", loses: true, tags: "broken_early",
	does: "a klamm that acknowledges acks=all as soon as the leader has the record; leaders are killed",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.leader(w.anyPartition())
			for _, other := range w.brokers() {
				if other != victim {
					w.net.Drop(other, victim) // followers can not ask for more
				}
			}
			w.fault("nobody fetches from %d", victim)
			w.rest(time.Second)
			w.kill(victim)
			w.net.Heal()
			w.awaitNewLeader(victim)
			w.start(victim)
			w.goesOn()
			w.awaitWhole()
		}
	},
})

var _ = register(scenario{
	number: 105, name: "control-truncation", loses: true, unclean: true, tags: "broken_truncate",
	does: "a klamm whose followers truncate to their high watermark, not by leader epoch; all brokers are killed",
	run:  killBrokers,
})
