package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// world is one cluster in one bubble, under one seed. Its driver, the goroutine of
// run, alone takes steps; between two of them everything else is at rest.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand // the driver's
	mix  mix
	log  zerolog.Logger

	nodes []*node
	net   network
	quorum
	check checks
	load  load

	began  time.Time
	events []event       // by time
	serial int           // of events, for those at one instant
	wake   chan struct{} // size 1: something was sent or proposed
	done   context.Context
	cancel context.CancelFunc
	ops    sync.WaitGroup // clients' operations

	mu     sync.Mutex
	trace  []string
	hash   uint64
	failed string
}

// event is something that the driver will do.
type event struct {
	at     time.Time
	serial int
	what   string // for the trace; "" for what is not worth a line
	do     func()
}

// mix is what a seed's run is made of: which faults, and how much of them. A run
// in which everything happens all the time explores less than many that differ.
type mix struct {
	combined bool // nodes are controller and broker, or one of both
	brokers  int
	// controllers are one or three.
	controllers int
	faults      map[string]int // weights
	gap         time.Duration  // between two faults, on average
	slow        int            // of 100 messages, how many are slow
	stray       int            // of 1000, how many come when nobody waits for them any more
	victim      protocol.NodeID
	// synced: every record of safe topics is synced before it counts
	// (flush.messages), so power may be cut at any broker, and at all.
	synced   bool
	during   time.Duration
	evidence bool
}

func newMix(rng *rand.Rand) mix {
	m := mix{
		combined: rng.IntN(3) == 0, brokers: 3 + rng.IntN(2), controllers: 3, faults: map[string]int{},
		gap:  time.Duration(200+rng.IntN(1500)) * time.Millisecond,
		slow: rng.IntN(15), stray: max(0, rng.IntN(12)-4),
		during:   time.Duration(20+rng.IntN(25)) * time.Second,
		evidence: rng.IntN(4) > 0,
	}
	if rng.IntN(5) == 0 {
		m.controllers = 1
	}
	for _, fault := range faultNames() {
		if rng.IntN(3) > 0 {
			m.faults[fault] = 1 + rng.IntN(8)
		}
	}
	// Who ends uncleanly is taken for one that may have lost records. With both in
	// one run there may be nobody left who has not (KIP-966).
	switch {
	case rng.IntN(2) == 0:
		delete(m.faults, "power cut")
	case m.faults["power cut"] > 0 && rng.IntN(3) == 0:
		m.synced = true
	case m.faults["power cut"] > 0:
		delete(m.faults, "kill")
		delete(m.faults, "kill all")
	}
	if !m.synced {
		delete(m.faults, "blackout")
	}
	return m
}

// outcome is what came of a run.
type outcome struct {
	failed string // "" where nothing is wrong
	hash   uint64 // of all that happened
	trace  []string
	counts counts
}

// counts are how often something happened without which a run proves little.
type counts struct{ steps, offices, skipped, restored, leaders, acknowledged int }

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.offices += o.offices
	c.skipped += o.skipped
	c.restored += o.restored
	c.leaders += o.leaders
	c.acknowledged += o.acknowledged
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64, log bool) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, seed, rng, newMix(rng), log)
		w.run()
		out = outcome{failed: w.failed, hash: w.hash, trace: w.trace, counts: w.check.counts}
	})
	return out
}

func newWorld(t *testing.T, seed uint64, rng *rand.Rand, m mix, log bool) *world {
	w := &world{
		t: t, seed: seed, rng: rng, mix: m, log: zerolog.Nop(),
		began: time.Now(), wake: make(chan struct{}, 1), hash: 14695981039346656037,
	}
	w.done, w.cancel = context.WithCancel(context.Background())
	if log {
		w.log = zerolog.New(logWriter{w})
	}
	w.net = network{
		w: w, conns: map[*conn]struct{}{}, cut: map[[2]protocol.NodeID]bool{}, paused: map[protocol.NodeID]bool{},
	}
	w.check.init(w)
	w.load = load{w: w, producers: map[key]*idempotent{}, consumers: map[key]*consumer{}, ids: map[int64]bool{}}
	w.makeNodes()
	return w
}

// logWriter has the product's log among the lines of the trace.
type logWriter struct{ w *world }

func (l logWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.trace = append(l.w.trace, fmt.Sprintf("%12v   %s", time.Since(l.w.began), strings.TrimSpace(string(p))))
	return len(p), nil
}

// tracef adds a line to what happened, from which a replay is told to be one.
func (w *world) tracef(format string, args ...any) {
	line := fmt.Sprintf("%12v %s", time.Since(w.began), fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
	for i := range len(line) {
		w.hash = (w.hash ^ uint64(line[i])) * 1099511628211
	}
}

// failf ends the run at the next step. The first failure counts.
func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == "" {
		w.failed = fmt.Sprintf("at %v: %s", time.Since(w.began), fmt.Sprintf(format, args...))
	}
	w.ring()
}

func (w *world) failure() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *world) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// after has the driver do something later.
func (w *world) after(d time.Duration, what string, do func()) {
	w.serial++
	e := event{at: time.Now().Add(d), serial: w.serial, what: what, do: do}
	i := sort.Search(len(w.events), func(i int) bool { return w.events[i].at.After(e.at) })
	w.events = slices.Insert(w.events, i, e)
}

// between is a duration drawn from a range. Nanoseconds count: that two things
// happen at one instant is rare.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)))
}

// run is the life of a cluster: it starts, lives through faults, is left alone,
// and has to be whole again.
func (w *world) run() {
	defer w.end()
	w.tracef("seed %d: %+v", w.seed, w.mix)
	for _, n := range w.nodes {
		w.after(w.between(0, 50*time.Millisecond), "", func() { n.start() })
	}
	w.startQuorum()
	w.load.begin()
	w.drive(2*time.Second, nil)
	w.after(0, "", w.fault)
	w.load.start()
	w.drive(w.mix.during, nil)
	w.load.stop()
	w.heal()
	w.drive(5*time.Minute, w.check.whole)
	switch why := w.check.missing(); {
	case w.failure() != "":
	case why != "":
		w.failf("five minutes after the last fault the cluster is not whole: %s", why)
	default:
		w.check.final()
	}
}

// drive takes steps for a time, or until something holds.
func (w *world) drive(d time.Duration, until func() bool) {
	end := time.Now().Add(d)
	for w.failure() == "" {
		synctest.Wait()
		w.net.collect()
		w.collectProposals()
		next := end
		if len(w.events) > 0 && w.events[0].at.Before(end) {
			next = w.events[0].at
		}
		if wait := time.Until(next); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-w.wake:
				timer.Stop()
				continue
			}
			synctest.Wait() // timers of others at the same instant
			w.net.collect()
			w.collectProposals()
		}
		if len(w.events) == 0 || w.events[0].at.After(time.Now()) {
			if time.Now().Before(end) {
				continue
			}
			return
		}
		e := w.events[0]
		w.events = w.events[1:]
		if e.what != "" {
			w.tracef("%s", e.what)
		}
		e.do()
		w.check.steps++
		synctest.Wait()
		w.check.step()
		if until != nil && until() {
			return
		}
	}
}

// end stops everything, so that the bubble can end.
func (w *world) end() {
	w.cancel()
	for _, n := range w.nodes {
		n.kill(nil)
	}
	w.net.close()
	w.ops.Wait()
}

func (w *world) makeNodes() {
	controllers := w.mix.controllers
	n := max(controllers, w.mix.brokers)
	if !w.mix.combined {
		n = controllers + w.mix.brokers
	}
	for i := range n {
		node := newNode(w, protocol.NodeID(i+1))
		node.controller = i < controllers
		node.broker = i >= controllers
		if w.mix.combined {
			node.broker = i < w.mix.brokers
		}
		w.nodes = append(w.nodes, node)
	}
	brokers := w.brokers()
	w.mix.victim = brokers[w.rng.IntN(len(brokers))].id
}

func (w *world) node(id protocol.NodeID) *node { return w.nodes[id-1] }

func (w *world) brokers() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !n.broker })
}

func (w *world) controllers() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !n.controller })
}

// pick draws a name by weights.
func pick(rng *rand.Rand, weights map[string]int) string {
	names := make([]string, 0, len(weights))
	total := 0
	for name, weight := range weights {
		names = append(names, name)
		total += weight
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	if total == 0 {
		return ""
	}
	at := rng.IntN(total)
	for _, name := range names {
		if at -= weights[name]; at < 0 {
			return name
		}
	}
	return ""
}
