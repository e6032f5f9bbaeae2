//go:build integration

package nemesis

import "time"

var _ = register(scenario{
	number: 8, name: "controller-frozen", stated: true,
	does: "the active controller stands still for ten seconds",
	run: func(w *world) {
		for w.next(2 * time.Second) {
			victim := w.active()
			w.freeze(victim)
			w.goesOn()
			w.rest(10 * time.Second)
			w.thaw(victim)
			w.goesOn()
		}
	},
})
