//go:build integration

package nemesis

import (
	"slices"
	"strconv"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

var _ = register(scenario{
	number: 21, name: "disk-wiped", dynamic: true,
	does: "a broker is back with an empty disk, then a controller, which votes again once it is put in its own place",
	run: func(w *world) {
		for w.next(time.Second) {
			broker := w.follower(w.anyPartition())
			w.kill(broker)
			w.wipe(broker)
			w.goesOn()
			w.start(broker)
			w.awaitWhole()

			controller := int32(101 + w.rand.IntN(3))
			w.kill(controller)
			w.wipe(controller)
			w.goesOn()
			w.start(controller)
			w.Await("the controller to be an observer", func() bool {
				q := w.quorum()
				return slices.ContainsFunc(q.Observers, func(r replica) bool {
					return r.Node == controller && r.DirectoryID == w.Node(controller).Meta("directory.id")
				})
			})
			if w.quorum().votes(w, controller) {
				w.T.Errorf("controller %d votes with an empty disk", controller)
			}
			w.changeVoters("replace", controller)
			if !w.quorum().votes(w, controller) {
				w.T.Errorf("controller %d was put in its own place and does not vote", controller)
			}
			w.goesOn()
		}
	},
})

// votes tells whether a controller does, with the disk that it has.
func (q quorum) votes(w *world, id int32) bool {
	w.T.Helper()
	return slices.Contains(q.Voters, replica{id, w.Node(id).Meta("directory.id")})
}

// changeVoters runs klamm quorum add, remove or replace.
func (w *world) changeVoters(what string, id int32) {
	w.T.Helper()
	w.fault("quorum %s %d", what, id)
	harness.MustRun(w.T, "quorum", what, strconv.Itoa(int(id)), "--bootstrap-server", w.servers(), "--timeout", "60s")
}
