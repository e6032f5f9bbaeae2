package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/klamm/klamm/protocol"
)

// naiveISR says in another way whom the leader, broker 1, wants in sync: it asks of
// each broker that there is what procedures say of who leaves and who comes in.
func naiveISR(in isrInput, epochs map[protocol.NodeID]protocol.BrokerEpoch) map[protocol.NodeID]bool {
	want := map[protocol.NodeID]bool{1: true}
	for _, f := range in.followers {
		behind := f.leo < in.leo && f.caughtUp.Add(in.maxLag).Before(in.now)
		current, alive := epochs[f.id]
		hasAll := f.leo >= max(in.highWatermark, in.epochStart)
		sameLife := f.epoch == -1 || f.epoch == current
		if slices.Contains(in.committed, f.id) {
			want[f.id] = !behind
		} else {
			want[f.id] = alive && hasAll && sameLife
		}
	}
	return want
}

func TestNextISRAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs := map[protocol.NodeID]protocol.BrokerEpoch{1: 11}
		in := isrInput{
			local: 1, committed: []protocol.NodeID{1}, leo: rapid.Int64Range(0, 20).Draw(t, "leo"),
			now: time.Unix(1000, 0), maxLag: 30 * time.Second,
			lives: func(id protocol.NodeID) (protocol.BrokerEpoch, bool) { e, ok := epochs[id]; return e, ok },
		}
		in.highWatermark = rapid.Int64Range(0, in.leo).Draw(t, "highWatermark")
		in.epochStart = rapid.Int64Range(0, in.leo).Draw(t, "epochStart")
		for id := protocol.NodeID(2); id <= 5; id++ {
			if rapid.Bool().Draw(t, fmt.Sprintf("alive%d", id)) {
				epochs[id] = protocol.BrokerEpoch(10 + id)
			}
			in.followers = append(in.followers, follower{
				id: id, leo: rapid.Int64Range(unknownLEO, in.leo).Draw(t, fmt.Sprintf("leo%d", id)),
				epoch:    rapid.SampledFrom([]protocol.BrokerEpoch{-1, 5, protocol.BrokerEpoch(10 + id)}).Draw(t, fmt.Sprintf("epoch%d", id)),
				caughtUp: in.now.Add(-time.Duration(rapid.IntRange(28, 32).Draw(t, fmt.Sprintf("ago%d", id))) * time.Second),
			})
			if rapid.Bool().Draw(t, fmt.Sprintf("isr%d", id)) {
				in.committed = append(in.committed, id)
			}
		}
		got := nextISR(in)
		want := naiveISR(in, epochs)
		for id := protocol.NodeID(1); id <= 5; id++ {
			if slices.Contains(got, id) != want[id] {
				t.Fatalf("%+v, brokers %v: %v, the naive version says %v", in, epochs, got, want)
			}
		}
	})
}
