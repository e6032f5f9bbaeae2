package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/klamm/klamm/protocol"
)

// Broker is a broker that may get replicas.
type Broker struct {
	ID     protocol.NodeID
	Rack   string // "" where it has none; those form a rack of their own
	Fenced bool
}

// Rand is the random source: *math/rand/v2.Rand is one.
type Rand interface {
	// IntN returns a number from 0 to n, exclusive; n is positive.
	IntN(n int) int
}

// Refusal says why there is no placement, in Kafka's words: it goes to clients.
type Refusal string

// Error returns the sentence.
func (r Refusal) Error() string { return string(r) }

// Place returns the replicas of each partition, the preferred leader first. The
// only errors are Refusals.
func Place(brokers []Broker, partitions, replicas int, rng Rand) ([][]protocol.NodeID, error) {
	living := 0
	for _, b := range brokers {
		if !b.Fenced {
			living++
		}
	}
	switch {
	case replicas <= 0:
		return nil, Refusal(fmt.Sprintf("Invalid replication factor %d: the replication factor must be positive.", replicas))
	case living == 0:
		return nil, Refusal("All brokers are currently fenced.")
	case replicas > len(brokers):
		return nil, Refusal(fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) "+
			"are registered or some brokers have all their log directories cordoned.", replicas, len(brokers)))
	}
	s := newStripes(brokers, living, rng)
	placed := make([][]protocol.NodeID, partitions)
	for i := range placed {
		placed[i] = s.next(replicas)
	}
	return placed, nil
}

// stripes deals brokers out, partition after partition.
type stripes struct {
	rng    Rand
	racks  []*rack
	living int
	first  int // rack where the next partition starts
	dealt  int // partitions since the last shuffle
}

// rack is the brokers of one rack: the living ones are used up first.
type rack struct {
	living, fenced ring
	taken          int // of the partition that is being placed
}

// ring is a list of brokers that is read from any place, round and round.
type ring struct {
	ids   []protocol.NodeID
	start int
}

func (r *ring) at(i int) protocol.NodeID { return r.ids[(r.start+i)%len(r.ids)] }

// take returns the rack's next broker for a partition, whose turn with this
// rack it is, or false where all have been taken.
func (r *rack) take(turn int) (protocol.NodeID, bool) {
	n := r.taken
	r.taken++
	if n < len(r.living.ids) {
		return r.living.at(turn + n), true
	}
	if n -= len(r.living.ids); n < len(r.fenced.ids) {
		return r.fenced.at(turn + n), true
	}
	return 0, false
}

func newStripes(brokers []Broker, living int, rng Rand) *stripes {
	s := &stripes{rng: rng, living: living}
	byName := map[string]*rack{}
	sorted := slices.SortedFunc(slices.Values(brokers), func(a, b Broker) int {
		return cmp.Or(cmp.Compare(a.Rack, b.Rack), cmp.Compare(a.ID, b.ID))
	})
	for _, b := range sorted {
		r := byName[b.Rack]
		if r == nil {
			r = &rack{}
			byName[b.Rack] = r
			s.racks = append(s.racks, r)
		}
		if b.Fenced {
			r.fenced.ids = append(r.fenced.ids, b.ID)
		} else {
			r.living.ids = append(r.living.ids, b.ID)
		}
	}
	for _, r := range s.racks {
		for _, list := range []*ring{&r.living, &r.fenced} {
			if len(list.ids) > 0 {
				list.start = rng.IntN(len(list.ids))
			}
		}
	}
	s.first = rng.IntN(len(s.racks))
	return s
}

// next places one partition. There are enough brokers and one of them lives.
func (s *stripes) next(replicas int) []protocol.NodeID {
	// Once every living broker has led, the same sequence would come again and
	// two brokers would share all their partitions: deal in another order.
	if s.dealt == s.living && s.living > 1 {
		s.shuffle()
		s.dealt = 0
	}
	placed := make([]protocol.NodeID, 0, replicas)

	for _, r := range s.racks {
		r.taken = 0
	}
	// The leader comes from the first rack that has a living broker.
	led := s.first
	for len(s.racks[led].living.ids) == 0 {
		led = (led + 1) % len(s.racks)
	}
	id, _ := s.racks[led].take(s.turn(led))
	placed = append(placed, id)

	// The others go round all racks, but the leader's rack sits out its next turn.
	at, sitsOut := s.first, led
	for len(placed) < replicas {
		if at == sitsOut {
			sitsOut = -1
		} else if id, ok := s.racks[at].take(s.turn(at)); ok {
			placed = append(placed, id)
		}
		at = (at + 1) % len(s.racks)
	}
	s.dealt++
	s.first = (s.first + 1) % len(s.racks)
	return placed
}

// turn is where a rack's brokers start for the partition that is being placed.
// For each distance from the first rack, the leader's included, a rack goes
// through all its brokers before one of them comes again.
func (s *stripes) turn(rack int) int {
	distance := (rack - s.first + len(s.racks)) % len(s.racks)
	return s.dealt/len(s.racks) + distance
}

func (s *stripes) shuffle() {
	shuffle(s.racks, s.rng)
	for _, r := range s.racks {
		shuffle(r.living.ids, s.rng)
		shuffle(r.fenced.ids, s.rng)
	}
}

func shuffle[T any](list []T, rng Rand) {
	for i := len(list) - 1; i > 0; i-- {
		j := rng.IntN(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
