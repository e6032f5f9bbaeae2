//go:build integration

package nemesis

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

var _ = register(scenario{
	number: 25, name: "all-moves", stated: true, brokers: 6, dynamic: true, waiting: 1,
	does: "replicas move to three other brokers and back, all brokers are restarted one by one, controllers come and go",
	run: func(w *world) {
		for there := true; w.next(time.Second); there = !there {
			to := []int32{1, 2, 3}
			if there {
				to = []int32{4, 5, 6}
			}
			w.move(to...)
			w.goesOn()
			for _, id := range w.brokers() {
				w.stop(id)
				w.rest(500 * time.Millisecond)
				w.start(id)
				w.awaitWhole()
			}
			w.goesOn()
			// The active one leaves, and so another is elected.
			out := w.quorum().Leader
			in := w.quorum().Observers
			i := slices.IndexFunc(in, func(r replica) bool { return r.Node > 100 })
			if i < 0 {
				w.T.Fatalf("no controller is waiting: %v", in)
			}
			w.changeVoters("add", in[i].Node)
			w.goesOn()
			w.changeVoters("remove", out)
			w.Await("another controller", func() bool { return w.quorum().Leader != out })
			w.goesOn()
			w.kill(w.quorum().Leader)
			w.goesOn()
			for id := range w.dead {
				w.start(id)
			}
		}
	},
	then: func(w *world) {
		if w.least < 2 {
			w.T.Errorf("a partition had %d in-sync replicas, and nobody was lost", w.least)
		}
	},
})

// move has other brokers take over all replicas, and waits until they have.
func (w *world) move(to ...int32) {
	w.T.Helper()
	w.fault("move to %v", to)
	targets := make([][]int32, partitions)
	for p := range targets {
		for i := range to {
			targets[p] = append(targets[p], to[(p+i)%len(to)])
		}
	}
	w.Move(topic, targets...)
	began := time.Now()
	w.Await("the move to end", func() bool {
		resp := harness.Ask[*kmsg.ListPartitionReassignmentsResponse](w.World, kmsg.NewPtrListPartitionReassignmentsRequest())
		return resp.ErrorCode == 0 && len(resp.Topics) == 0
	})
	w.replicas = to
	w.awaitWhole()
	w.T.Logf("moved after %v", time.Since(began).Round(time.Millisecond))
}

// quorum is what klamm quorum status says.
type quorum struct {
	Leader            int32
	Voters, Observers []replica
}

type replica struct {
	Node        int32
	DirectoryID string
}

func (w *world) quorum() (q quorum) {
	w.T.Helper()
	if err := json.Unmarshal([]byte(harness.MustRun(w.T, "quorum", "status", "--json", "--bootstrap-server", w.servers())), &q); err != nil {
		w.T.Fatal(err)
	}
	return q
}

// servers are the addresses of all brokers.
func (w *world) servers() string { return strings.Join(w.Bootstrap(), ",") }
