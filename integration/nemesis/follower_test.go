//go:build integration

package nemesis

import "time"

var _ = register(scenario{
	number: 2, name: "follower-killed",
	does: "a follower is killed while it appends, and is back at once or after a while",
	run: func(w *world) {
		for w.next(time.Second) {
			victim := w.follower(w.anyPartition())
			w.kill(victim)
			if w.rand.IntN(2) == 0 {
				w.goesOn()
			}
			w.start(victim)
			if w.rand.IntN(2) == 0 {
				w.awaitWhole()
			}
		}
	},
})

var _ = register(scenario{
	number: 3, name: "all-brokers-killed", stated: true,
	does: "all brokers are killed in one moment; what was written was not lost with the processes",
	run:  killBrokers,
})

func killBrokers(w *world) {
	for w.next(5 * time.Second) {
		w.kill(w.brokers()...)
		w.start(w.brokers()...)
		w.goesOn()
		w.awaitWhole()
	}
}

var _ = register(scenario{
	number: 27, name: "all-nodes-killed", combined: true,
	does: "all nodes, which are controllers and brokers, are killed in one moment",
	run:  killBrokers,
})
