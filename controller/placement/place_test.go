package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/klamm/klamm/protocol"
)

// fixed is a random source that always starts at n.
type fixed int

func (f fixed) IntN(n int) int { return int(f) % n }

func cluster(spec string) []Broker {
	var brokers []Broker
	for _, field := range strings.Fields(spec) {
		var b Broker
		field, b.Fenced = strings.CutSuffix(field, "!")
		name, rack, _ := strings.Cut(field, "@")
		fmt.Sscan(name, &b.ID)
		b.Rack = rack
		brokers = append(brokers, b)
	}
	return brokers
}

func TestPlaceStripes(t *testing.T) {
	for _, tc := range []struct {
		name, brokers        string
		partitions, replicas int
		want                 string
	}{
		{"one broker", "1", 3, 1, "[[1] [1] [1]]"},
		{"one rack, in turn", "3 1 2", 3, 2, "[[1 2] [2 3] [3 1]]"},
		{"racks in turn", "0@a 1@a 2@a 10@b 11@b 12@b 20@c 21@c 22@c", 4, 3, "[[0 11 22] [10 21 2] [20 1 12] [1 12 20]]"},
		{"fenced follow", "1 2! 3", 2, 3, "[[1 3 2] [3 1 2]]"},
		{"fenced rack does not lead", "1@a! 2@a! 10@b 11@b", 4, 2, "[[11 1] [10 2] [11 1] [10 2]]"},
		{"more replicas than racks", "1@a 2@a 10@b 11@b", 1, 4, "[[1 11 2 10]]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Place(cluster(tc.brokers), tc.partitions, tc.replicas, fixed(0))
			if err != nil || fmt.Sprint(got) != tc.want {
				t.Errorf("got %v (%v), want %s", got, err, tc.want)
			}
		})
	}
}

func TestPlaceRefusals(t *testing.T) {
	for _, tc := range []struct {
		brokers  string
		replicas int
		want     string
	}{
		{"1", 0, "Invalid replication factor 0: the replication factor must be positive."},
		{"1! 2!", 1, "All brokers are currently fenced."},
		{"", 1, "All brokers are currently fenced."},
		{"1", 2, "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."},
	} {
		if _, err := Place(cluster(tc.brokers), 1, tc.replicas, fixed(0)); err == nil || err.Error() != tc.want {
			t.Errorf("%q × %d: %v, want %q", tc.brokers, tc.replicas, err, tc.want)
		}
	}
}

// TestPlaceIsEven checks what the stripes promise on clusters of any shape.
func TestPlaceIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		perRack := rapid.IntRange(1, 4).Draw(t, "perRack")
		var brokers []Broker
		for r := range racks {
			for i := range perRack {
				brokers = append(brokers, Broker{ID: protocol.NodeID(10*r + i), Rack: fmt.Sprint("r", r)})
			}
		}
		n := len(brokers)
		replicas := rapid.IntRange(1, n).Draw(t, "replicas")
		rounds := rapid.IntRange(1, 5).Draw(t, "rounds")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		placed, err := Place(brokers, n*rounds, replicas, rng)
		if err != nil {
			t.Fatal(err)
		}
		leads := map[protocol.NodeID]int{}
		for _, part := range placed {
			seen, inRack := map[protocol.NodeID]bool{}, map[protocol.NodeID]int{}
			for _, id := range part {
				if seen[id] {
					t.Fatalf("broker %d twice in %v", id, part)
				}
				seen[id] = true
				inRack[id/10]++
			}
			leads[part[0]]++
			for rack := range racks {
				if got := inRack[protocol.NodeID(rack)]; got < replicas/racks || got > (replicas+racks-1)/racks {
					t.Fatalf("%d of %d replicas in one of %d racks: %v", got, replicas, racks, part)
				}
			}
		}
		for _, b := range brokers {
			if leads[b.ID] != rounds {
				t.Fatalf("broker %d leads %d partitions of %d, want %d", b.ID, leads[b.ID], len(placed), rounds)
			}
		}
	})
}

func TestPlaceIsAFunctionOfTheSeed(t *testing.T) {
	brokers := cluster("1@a 2@a 3@b 4@b 5@c 6@c!")
	place := func() string {
		got, err := Place(brokers, 20, 3, rand.New(rand.NewPCG(7, 7)))
		return fmt.Sprint(got, err)
	}
	if a, b := place(), place(); a != b {
		t.Errorf("one seed, two results:\n%s\n%s", a, b)
	}
}
