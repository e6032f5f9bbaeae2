package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
)

// cell is one case of what may happen to the two replicas of a partition while a record
// is on its way between them.
type cell struct {
	who  string // is restarted: leader, follower or both
	when string // before, amid or after the second round of replication
	how  string // clean, kill or power cut
}

// TestCells runs testdata/cells: what becomes of a record, and of the logs, for every
// cell of a table. Where fewer replicas lose what they had not synced than have to be in
// sync for an acknowledgement, all invariants have to hold; what is printed says how.
func TestCells(t *testing.T) {
	if shuffled {
		t.Skip("with the race detector it takes minutes, and TestScenarios takes the same steps")
	}
	datadriven.Walk(t, "testdata/cells", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			configs := map[string]string{}
			for _, a := range d.CmdArgs {
				configs[a.Key] = a.Vals[0]
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				who, rest, _ := strings.Cut(line, " ")
				when, how, _ := strings.Cut(rest, " ")
				cryptotest.SetGlobalRandom(t, 1)
				synctest.Test(t, func(t *testing.T) {
					c := cell{who, when, how}
					topic := "safe"
					if c.lost(configs) >= minInSync(configs) {
						topic = "wild"
					}
					s := newScript(t, 2, topic)
					result := s.cell(c, configs)
					if s.failed != "" {
						result = "FAILED " + s.failed
						t.Errorf("%s, %v: %s\n%s", line, configs, s.failed, strings.Join(s.trace, "\n"))
					}
					fmt.Fprintf(&out, "%s: %s\n", line, result)
				})
			}
			return out.String()
		})
	})
}

// cell: "a" is on both replicas, "b" on its way, when it happens; ten seconds later "c"
// is sent to whoever leads then, if anybody does; where both were stopped the one that
// was behind starts first, alone for ten seconds. When all is well again "d" is sent.
func (s *script) cell(c cell, configs map[string]string) string {
	defer s.end()
	s.begin(configs)
	first := s.produce("a", -1)
	s.until("a is on both", func() bool { return s.highWatermark(2) == 1 && s.highWatermark(3) == 1 })
	s.outcome("a", first)

	var reached func() bool
	switch c.when {
	case "before":
		s.secondRound(false)
		reached = func() bool { return s.leo(3) == 2 && len(s.net.gated) > 0 }
	case "amid":
		s.secondRound(true)
		reached = func() bool { return s.highWatermark(2) == 2 && len(s.net.gated) > 0 }
	case "after":
		reached = func() bool { return s.highWatermark(2) == 2 && s.highWatermark(3) == 2 }
	}
	b := s.produce("b", -1)
	s.until("b is where it shall be", reached)
	s.drive(100*time.Millisecond, nil) // an answer that is on its way comes

	var struck []*node
	if c.who != "follower" {
		struck = append(struck, s.node(2))
	}
	if c.who != "leader" {
		struck = append(struck, s.node(3))
	}
	for _, n := range struck {
		s.stop(n, c.how)
	}
	s.open(true)
	s.drive(10*time.Second, nil)
	outcomes := []string{"b " + s.outcome("b", b)}
	third := s.produce("c", -1)
	s.drive(5*time.Second, nil)
	for i := len(struck) - 1; i >= 0; i-- {
		struck[i].start()
		s.drive(10*time.Second, nil)
	}
	s.until("all is well", s.well)
	outcomes = append(outcomes, "c "+s.outcome("c", third))
	last := s.produce("d", -1)
	s.until("d is acknowledged", func() bool { return s.outcome("d", last) == "acknowledged" })
	s.until("all is well", s.well)

	one, other := s.content(2), s.content(3)
	if one != other {
		s.failf("invariant 2: broker 2 has %s, broker 3 has %s", one, other)
	}
	for _, value := range s.acked {
		if kept := strings.Contains(" "+one, " "+value+"/"); !kept && safe(s.topic) {
			s.failf("invariant 1: %s was acknowledged, and the logs have %s", value, one)
		}
	}
	return strings.Join(outcomes, ", ") + "; " + one
}

// lost is how many replicas may have lost what they had not synced.
func (c cell) lost(configs map[string]string) int {
	switch {
	case c.how != "power cut" || configs["flush.messages"] != "":
		return 0
	case c.who == "both":
		return 2
	}
	return 1
}

func minInSync(configs map[string]string) (n int) {
	_, _ = fmt.Sscan(configs["min.insync.replicas"], &n)
	return n
}

// well tells whether both replicas are in sync and have the same.
func (s *script) well() bool {
	_, p := s.partition()
	return s.leading() != nil && len(p.ISR) == len(p.Replicas) && s.leo(2) == s.leo(3) &&
		s.highWatermark(2) == s.leo(2) && s.highWatermark(3) == s.leo(2)
}
