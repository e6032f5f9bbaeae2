package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
)

var (
	oneSeed   = flag.Int64("seed", -1, "replay this seed, and print what happens")
	seeds     = flag.Int("seeds", defaultSeeds, "how many seeds to run")
	firstSeed = flag.Uint64("first", 1, "the first of them")
	withLog   = flag.Bool("log", false, "print the product's log too")
)

// One processor, and no collection of garbage but between two seeds, since it
// interrupts who runs: which goroutine goes first is then the same in every run,
// as long as the operating system does not take the processor away for the 10 ms
// after which the runtime takes turns.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	os.Exit(m.Run())
}

// TestSim runs clusters under random faults. A failure prints its seed; -seed
// repeats it.
func TestSim(t *testing.T) {
	var all counts
	if *oneSeed >= 0 {
		runSeed(t, uint64(*oneSeed), true, &all)
		return
	}
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		// Where the product panics, this is what is left to tell the seed.
		fmt.Fprintf(os.Stderr, "seed %d\n", seed)
		if !runSeed(t, seed, false, &all) {
			return
		}
	}
	t.Logf("%d seeds: %+v", *seeds, all)
	if *seeds >= 100 && (all.skipped == 0 || all.restored == 0 || all.offices <= *seeds || all.leaders == 0 || all.acknowledged == 0) {
		t.Errorf("%d seeds try too little: %+v", *seeds, all)
	}
}

func runSeed(t *testing.T, seed uint64, verbose bool, all *counts) bool {
	return t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
		out := play(t, seed, *withLog)
		all.add(out.counts)
		if out.failed != "" {
			const last = 40
			trace := out.trace
			if !verbose && len(trace) > last {
				trace = trace[len(trace)-last:]
			}
			t.Errorf("seed %d: %s\n%s\nreplay it: go test ./integration/sim -run TestSim -v -args -seed %d", seed, out.failed, strings.Join(trace, "\n"), seed)
		} else if verbose {
			t.Logf("seed %d, hash %016x, %+v\n%s", seed, out.hash, out.counts, strings.Join(out.trace, "\n"))
		}
	})
}

// play simulates with all chance from the seed.
func play(t *testing.T, seed uint64, log bool) outcome {
	cryptotest.SetGlobalRandom(t, seed)
	defer runtime.GC()
	return simulate(t, seed, log)
}

// TestReplay shows that a seed gives the same run each time.
func TestReplay(t *testing.T) {
	if shuffled {
		t.Skip("with the race detector the runtime shuffles who runs")
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			// The machine may interfere, once; it does not do so each time alike.
			first := play(t, seed, false)
			var difference string
			for range 3 {
				if difference = differ(first.trace, play(t, seed, false).trace); difference == "" {
					return
				}
			}
			t.Error(difference)
		})
	}
}

// differ says where two runs part.
func differ(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nand was\n%s", i, b[i], a[i])
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d lines, and %d before", len(b), len(a))
	}
	return ""
}
