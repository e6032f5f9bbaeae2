//go:build integration

package nemesis

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

var (
	which    = flag.String("scenario", "short", "short, stated, all, or numbers with commas between")
	duration = flag.Duration("duration", 45*time.Second, "how long each cluster is broken for")
	seed     = flag.Uint64("seed", 0, "of all chance; 0 draws one")
	rate     = flag.Float64("rate", 100, "records a second of each producer")
	keep     = flag.String("keep", "", "where each run leaves directories, logs and history")
)

func TestMain(m *testing.M) { harness.WithNetwork(m) }

// scenario is one way to break a cluster.
type scenario struct {
	number int
	name   string
	does   string // in a line

	brokers  int               // 0 is three
	combined bool              // the brokers are the controllers, ids 1 to 3
	dynamic  bool              // voters come and go (KIP-853)
	waiting  int               // controllers beyond three that have no vote yet; only where the quorum is dynamic
	settings []string          // of all nodes, over the common ones
	configs  map[string]string // of the topic, over min.insync.replicas=2
	acks     string            // of the producers, "" is all
	tags     string            // the binary is built with these; "" is the one that the tests are about
	stated   bool              // one of those that `make nemesis` runs
	short    time.Duration     // how long it is broken for in `make integration`; 0 is that it is not part of it
	atLeast  time.Duration     // how long it must be broken for to be worth it

	run  func(w *world)
	then func(w *world) // may be nil

	// loses says that records are lost here, and that the history must show it: the
	// scenario is a control of the checker, and nothing else is checked.
	loses bool
	// unclean says that a leader may be elected who was not in sync.
	unclean bool
}

var scenarios []scenario

// register is called where a scenario is declared.
func register(s scenario) scenario {
	scenarios = append(scenarios, s)
	return s
}

// TestNemesis runs the scenarios that the flags name, one after the other.
func TestNemesis(t *testing.T) {
	slices.SortFunc(scenarios, func(a, b scenario) int { return cmp.Compare(a.number, b.number) })
	for i, s := range scenarios[1:] {
		if s.number == scenarios[i].number {
			t.Fatalf("two scenarios have the number %d", s.number)
		}
	}
	drawn := *seed
	if drawn == 0 {
		drawn = rand.Uint64N(1_000_000) + 1
	}
	for _, s := range chosen(t) {
		t.Run(fmt.Sprintf("%d-%s", s.number, s.name), func(t *testing.T) {
			t.Logf("%s; -scenario %d -seed %d", s.does, s.number, drawn)
			w := begin(t, s, drawn)
			s.run(w)
			w.end()
		})
	}
}

func chosen(t *testing.T) (list []scenario) {
	t.Helper()
	for word := range strings.SplitSeq(*which, ",") {
		number, err := strconv.Atoi(word)
		if err != nil && !slices.Contains([]string{"short", "stated", "all"}, word) {
			t.Fatalf("-scenario %s: %q names none", *which, word)
		}
		before := len(list)
		for _, s := range scenarios {
			if word == "all" || word == "stated" && s.stated || word == "short" && s.short > 0 || err == nil && s.number == number {
				list = append(list, s)
			}
		}
		if len(list) == before {
			t.Fatalf("-scenario %s: there is no %s", *which, word)
		}
	}
	return list
}
