package replica

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/klamm/klamm/protocol"
)

func TestNextHighWatermark(t *testing.T) {
	ids := func(ids ...protocol.NodeID) []protocol.NodeID { return ids }
	for _, tc := range []struct {
		name string
		in   watermarkInput
		want int64
	}{
		{"alone, everything is committed", watermarkInput{current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1)}, minInSync: 1}, 10},
		{"the slowest member decides", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2, 3)},
			followers: []follower{{id: 2, leo: 7}, {id: 3, leo: 5}}, minInSync: 1,
		}, 5},
		{"who is out of the ISR does not hold it back", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2)},
			followers: []follower{{id: 2, leo: 7}, {id: 3, leo: 5}}, minInSync: 1,
		}, 7},
		{"who is proposed does (KIP-497)", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2), proposed: ids(1, 2, 3)},
			followers: []follower{{id: 2, leo: 7}, {id: 3, leo: 5}}, minInSync: 1,
		}, 5},
		{"who is proposed to leave does until that is committed", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2, 3), proposed: ids(1, 2)},
			followers: []follower{{id: 2, leo: 7}, {id: 3, leo: 5}}, minInSync: 1,
		}, 5},
		{"a member that has not fetched yet stops it", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2)},
			followers: []follower{{id: 2, leo: unknownLEO}}, minInSync: 1,
		}, 3},
		{"it never goes back", watermarkInput{
			current: 8, leaderLEO: 10, inSync: inSyncState{committed: ids(1, 2)},
			followers: []follower{{id: 2, leo: 6}}, minInSync: 1,
		}, 8},
		{"it waits while the ISR is too small", watermarkInput{current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1)}, minInSync: 2}, 3},
		{"proposed members do not make it large enough", watermarkInput{
			current: 3, leaderLEO: 10, inSync: inSyncState{committed: ids(1), proposed: ids(1, 2)},
			followers: []follower{{id: 2, leo: 10}}, minInSync: 2,
		}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := nextHighWatermark(tc.in); got != tc.want {
				t.Errorf("high watermark %d, want %d", got, tc.want)
			}
		})
	}
}

// naiveHighWatermark says the same in another way: the largest offset that every
// replica that counts has reached, by trying them all.
func naiveHighWatermark(in watermarkInput) int64 {
	leos := map[protocol.NodeID]int64{}
	for _, f := range in.followers {
		leos[f.id] = f.leo
	}
	best := in.current
	if len(in.inSync.committed) < in.minInSync {
		return best
	}
	for offset := in.current + 1; offset <= in.leaderLEO; offset++ {
		all := true
		for _, id := range append(slices.Clone(in.inSync.committed), in.inSync.proposed...) {
			if leo, remote := leos[id]; remote && leo < offset {
				all = false
			}
		}
		if all {
			best = offset
		}
	}
	return best
}

// genWatermarkInput draws a leader, broker 1, with up to four followers.
func genWatermarkInput(t *rapid.T) watermarkInput {
	in := watermarkInput{
		leaderLEO: rapid.Int64Range(0, 20).Draw(t, "leaderLEO"),
		minInSync: rapid.IntRange(1, 3).Draw(t, "minInSync"),
		inSync:    inSyncState{committed: []protocol.NodeID{1}},
	}
	in.current = rapid.Int64Range(0, in.leaderLEO).Draw(t, "current")
	pending := rapid.Bool().Draw(t, "pending")
	if pending {
		in.inSync.proposed = []protocol.NodeID{1}
	}
	for id := protocol.NodeID(2); id <= 5; id++ {
		f := follower{id: id, leo: rapid.Int64Range(unknownLEO, in.leaderLEO).Draw(t, fmt.Sprintf("leo%d", id))}
		in.followers = append(in.followers, f)
		if rapid.Bool().Draw(t, fmt.Sprintf("isr%d", id)) {
			in.inSync.committed = append(in.inSync.committed, id)
		}
		if pending && rapid.Bool().Draw(t, fmt.Sprintf("proposed%d", id)) {
			in.inSync.proposed = append(in.inSync.proposed, id)
		}
	}
	return in
}

// TestHighWatermarkAgainstNaive checks invariant 3: the high watermark exceeds
// no LEO of the MaximalISR unless it did before, and a second version agrees.
func TestHighWatermarkAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genWatermarkInput(t)
		got := nextHighWatermark(in)
		if want := naiveHighWatermark(in); got != want {
			t.Fatalf("%+v: high watermark %d, the naive version says %d", in, got, want)
		}
		if got > in.leaderLEO {
			t.Fatalf("%+v: high watermark %d is beyond the leader's LEO", in, got)
		}
		for _, f := range in.followers {
			if in.inSync.inMaximal(f.id) && got > f.leo && got != in.current {
				t.Fatalf("%+v: high watermark %d is beyond the LEO of %d", in, got, f.id)
			}
		}
	})
}

func TestMaximalSize(t *testing.T) {
	for _, tc := range []struct {
		s    inSyncState
		want int
	}{
		{inSyncState{committed: []protocol.NodeID{1, 2}}, 2},
		{inSyncState{committed: []protocol.NodeID{1, 2}, proposed: []protocol.NodeID{1, 2, 3}}, 3},
		{inSyncState{committed: []protocol.NodeID{1, 2}, proposed: []protocol.NodeID{1}}, 2},
	} {
		if got := tc.s.maximalSize(); got != tc.want {
			t.Errorf("%+v: %d members, want %d", tc.s, got, tc.want)
		}
	}
}

func TestEffectiveMinInSync(t *testing.T) {
	for _, tc := range []struct{ configured, replicas, want int }{{1, 3, 1}, {2, 3, 2}, {2, 1, 1}, {5, 3, 3}, {0, 1, 1}} {
		if got := effectiveMinInSync(tc.configured, tc.replicas); got != tc.want {
			t.Errorf("effectiveMinInSync(%d, %d) = %d, want %d", tc.configured, tc.replicas, got, tc.want)
		}
	}
}
