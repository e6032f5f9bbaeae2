package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// TestScenarios runs testdata/scenarios, each a cluster that is driven step by step:
//
//	cluster brokers=N KEY=VALUE...  starts it; keys are configs of the topic
//	produce VALUE...                sends values to who leads, and says what came of them
//	send VALUE                      sends one, and waits for nothing
//	lead N                          makes another broker the preferred leader, and so the leader
//	hold second-round               keeps back the fetch that says that a value has arrived
//	hold answer                     keeps back the answer to that
//	hold from N                     keeps back every fetch of a broker
//	lose | let-go                   what was kept back, and ends that
//	let-go-first                    lets go what was kept back first, and goes on
//	kill | cut-power | stop N...    ends brokers
//	start N...                      starts brokers
//	isolate N...                    cuts brokers off from all others, not from the controller
//	part N N                        cuts two brokers off from each other
//	heal                            ends that
//	wait D                          lets time pass
//	show                            what each broker has
//	well                            waits until all have the same, and shows it
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) {
			var s *script
			defer func() { s.end() }()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "cluster" {
					s = newScenario(t, d)
				}
				out := s.command(t, d)
				if s.failed != "" {
					t.Errorf("%s: %s\n%s", d.Pos, s.failed, strings.Join(s.trace, "\n"))
				}
				return out
			})
		})
	})
}

// newScenario makes the cluster. With unclean elections the topic is one of which records
// may be lost.
func newScenario(t *testing.T, d *datadriven.TestData) *script {
	brokers, topic := 2, "safe"
	configs := map[string]string{}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "brokers":
			d.ScanArgs(t, "brokers", &brokers)
			continue
		case "unclean.leader.election.enable":
			topic = "wild"
		}
		configs[a.Key] = a.Vals[0]
	}
	s := newScript(t, brokers, topic)
	s.begin(configs)
	return s
}

func (s *script) command(t *testing.T, d *datadriven.TestData) string {
	var brokers []*node
	switch d.Cmd {
	case "kill", "cut-power", "stop", "start", "isolate", "part", "lead":
		for _, a := range d.CmdArgs {
			var id protocol.NodeID
			if _, err := fmt.Sscan(a.Key, &id); err != nil {
				d.Fatalf(t, "%v", err)
			}
			brokers = append(brokers, s.node(id))
		}
	}
	switch d.Cmd {
	case "cluster":
	case "produce":
		return s.produceAll(d.CmdArgs)
	case "send":
		s.produce(d.CmdArgs[0].Key, -1)
		s.drive(50*time.Millisecond, nil)
	case "lead":
		s.lead(brokers[0])
	case "hold":
		if d.CmdArgs[0].Key != "from" {
			s.secondRound(d.CmdArgs[0].Key == "answer")
			break
		}
		from := d.CmdArgs[1].Key
		s.net.gate = func(m *message) bool {
			return m.key == int16(kmsg.Fetch) && m.kind == "request" && m.conn.kind == protocol.BrokerListener && fmt.Sprint(m.from) == from
		}
	case "let-go-first":
		gate := s.net.gate
		s.net.gate = nil
		s.net.deliver(s.net.gated[0])
		s.net.gate, s.net.gated = gate, s.net.gated[1:]
		s.drive(50*time.Millisecond, nil)
	case "lose", "let-go":
		s.open(d.Cmd == "lose")
	case "kill", "cut-power", "stop":
		how := map[string]string{"kill": "kill", "cut-power": "power cut", "stop": "clean"}[d.Cmd]
		for _, n := range brokers {
			s.stop(n, how)
		}
	case "start":
		for _, n := range brokers {
			n.start()
		}
	case "isolate":
		var links [][2]protocol.NodeID
		for _, n := range brokers {
			for _, other := range s.brokers() {
				links = append(links, [2]protocol.NodeID{n.id, other.id}, [2]protocol.NodeID{other.id, n.id})
			}
		}
		s.net.setCut(links, true)
	case "part":
		s.net.setCut([][2]protocol.NodeID{{brokers[0].id, brokers[1].id}, {brokers[1].id, brokers[0].id}}, true)
	case "heal":
		clear(s.net.cut)
		s.net.reopen()
	case "wait":
		wait, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.drive(wait, nil)
	case "well":
		s.until("all is well", s.well)
		return s.show()
	case "show":
		return s.show()
	default:
		d.Fatalf(t, "what is %s?", d.Cmd)
	}
	return "ok\n"
}

// produceAll sends values at once and waits for what comes of them for five seconds.
func (s *script) produceAll(values []datadriven.CmdArg) string {
	flights := make([]*flight, len(values))
	for i, v := range values {
		flights[i] = s.produce(v.Key, -1)
		s.drive(10*time.Millisecond, nil)
	}
	s.drive(5*time.Second, nil)
	var out strings.Builder
	for i, v := range values {
		fmt.Fprintf(&out, "%s: %s\n", v.Key, s.outcome(v.Key, flights[i]))
	}
	return out.String()
}

// show says who leads, and what each broker has.
func (s *script) show() string {
	var out strings.Builder
	_, p := s.partition()
	fmt.Fprintln(&out, brief(p))
	for _, n := range s.brokers() {
		if n.dead() {
			fmt.Fprintf(&out, "%d: down\n", n.id)
		} else {
			fmt.Fprintf(&out, "%d: %s, high watermark %d\n", n.id, s.content(n.id), s.highWatermark(n.id))
		}
	}
	return out.String()
}
