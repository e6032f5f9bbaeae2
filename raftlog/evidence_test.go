package raftlog

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// suspect is a detector of one of five voters over a quorum that the test makes up.
type suspect struct {
	*detector
	mu        sync.Mutex
	now       sight
	refuses   bool
	elections []time.Duration
}

func (w *suspect) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// detecting runs a detector of node own in a bubble; its leader 2 of term 7 has
// been reached.
func detecting(t *testing.T, own protocol.NodeID, do func(w *suspect)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{NodeID: own}
		for id := range protocol.NodeID(5) {
			cfg.Voters = append(cfg.Voters, Voter{ID: id + 1, Endpoint: fmt.Sprintf("c%d:9093", id+1)})
		}
		w := &suspect{detector: newDetector(cfg, &voters{configured: cfg.Voters}, zerolog.Nop()), now: sight{leader: 2, term: 7, contact: time.Now()}}
		start := time.Now()
		w.detector.sight = func() sight {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		}
		w.dial = func(_ context.Context, addr string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.refuses {
				return syscall.ECONNREFUSED
			}
			return nil
		}
		w.elect = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.elections = append(w.elections, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { w.run(ctx) })
		w.follow(2)
		synctest.Wait()
		do(w)
		cancel()
		group.Wait()
	})
}

func (w *suspect) elected(t *testing.T, want ...time.Duration) {
	t.Helper()
	time.Sleep(10 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.elections) != fmt.Sprint(want) {
		t.Errorf("elections at %v, want %v", w.elections, want)
	}
}

func TestDeadLeader(t *testing.T) {
	for own, after := range map[protocol.NodeID]time.Duration{
		1: refusalPause, 3: refusalPause + rankPause, 5: refusalPause + 3*rankPause,
	} {
		detecting(t, own, func(w *suspect) {
			w.set(func() { w.refuses = true })
			w.lost(2)
			w.lost(2) // its other connection
			w.elected(t, after)
		})
	}
}

// Once per term: what fails is left to the timeouts.
func TestOneElectionPerTerm(t *testing.T) {
	detecting(t, 1, func(w *suspect) {
		w.set(func() { w.refuses = true })
		w.lost(2)
		w.elected(t, refusalPause)
		w.lost(2)
		w.elected(t, refusalPause)
		w.set(func() { w.now.term = 8 })
		w.lost(2)
		w.elected(t, refusalPause, 20*time.Second+refusalPause)
	})
}

func TestNoEvidence(t *testing.T) {
	for name, change := range map[string]func(w *suspect){
		"accepts: a connection ended":  func(w *suspect) { w.lost(2) },
		"another node than the leader": func(w *suspect) { w.set(func() { w.refuses = true }); w.lost(4) },
		"heard of meanwhile": func(w *suspect) {
			w.set(func() { w.refuses = true })
			w.lost(2)
			time.Sleep(refusalPause / 2)
			w.set(func() { w.now.contact = time.Now() })
		},
		"another leader meanwhile": func(w *suspect) {
			w.set(func() { w.refuses = true })
			w.lost(2)
			time.Sleep(refusalPause + rankPause)
			w.set(func() { w.now.leader, w.now.term = 1, 8 })
		},
		"opened again": func(w *suspect) {
			w.set(func() { w.refuses = true })
			w.lost(2)
			time.Sleep(refusalPause / 2)
			w.set(func() { w.refuses = false })
		},
		"a listener that was never reached": func(w *suspect) {
			w.detector.mu.Lock()
			w.reached = nil
			w.detector.mu.Unlock()
			w.set(func() { w.refuses = true })
			w.lost(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			detecting(t, 5, func(w *suspect) {
				change(w)
				w.elected(t)
			})
		})
	}
}

// The election of the voter before fails: the next one goes on, since nobody leads.
func TestNextInRank(t *testing.T) {
	detecting(t, 3, func(w *suspect) {
		w.set(func() { w.refuses = true })
		w.lost(2)
		time.Sleep(refusalPause + rankPause/2)
		w.set(func() { w.now = sight{leader: protocol.NoNode, term: 8, contact: time.Now()} })
		w.elected(t, refusalPause+rankPause)
	})
}

// A new leader may lead before it listens.
func TestReachedLater(t *testing.T) {
	detecting(t, 1, func(w *suspect) {
		w.set(func() { w.now = sight{leader: 4, term: 8}; w.refuses = true })
		w.follow(4)
		time.Sleep(3 * refusalPause / 2)
		w.set(func() { w.refuses = false })
		time.Sleep(2 * time.Second)
		w.set(func() { w.refuses = true })
		w.lost(4)
		w.elected(t, 3*refusalPause/2+2*time.Second+refusalPause)
	})
}

// A node without a vote starts no election, whatever the evidence, and counts none.
func TestNoElectionWithoutAVote(t *testing.T) {
	cfg := Config{NodeID: 1, FastFailureDetection: true}
	cfg.setDefaults()
	e := &Engine{cfg: cfg, fail: newFailure(), office: newOffice(), voters: &voters{}}
	s := e.newSession()
	defer s.trans.Close()
	s.detect.elect()
	if n := e.ElectionsByEvidence(); n != 0 {
		t.Errorf("%d elections are counted", n)
	}
}
