//go:build integration

package nemesis

import "time"

var _ = register(scenario{
	number: 1, name: "leader-killed", stated: true, short: 10 * time.Second,
	does: "the leader of a partition is killed, again and again",
	run:  killLeaders,
})

var _ = register(scenario{
	number: 28, name: "leader-killed-unnoticed", settings: []string{"klamm.fast.failure.detection=false"},
	does: "the same where only the end of its session tells that a broker is gone",
	run:  killLeaders,
})

func killLeaders(w *world) {
	for w.next(3 * time.Second) {
		victim := w.leader(w.anyPartition())
		w.kill(victim)
		w.awaitNewLeader(victim)
		w.goesOn()
		w.rest(2 * time.Second)
		w.start(victim)
		w.awaitWhole()
	}
}

var _ = register(scenario{
	number: 7, name: "leader-frozen", stated: true, atLeast: 40 * time.Second,
	does: "the leader of a partition stands still for thirty seconds, and finds requests of old when it goes on",
	run: func(w *world) {
		for w.next(2 * time.Second) {
			victim := w.leader(w.anyPartition())
			epochs := w.epochs(victim)
			z := w.hauntedBy(victim)
			w.freeze(victim)
			z.send()
			w.awaitNewLeader(victim)
			z.send()
			w.goesOn()
			w.rest(30*time.Second - session)
			w.thaw(victim)
			w.awaitWhole()
			z.refused(victim, epochs)
			z.end()
		}
	},
})
