//go:build integration

package moves

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mib        = 1 << 20
	leaderRate = "leader.replication.throttled.rate"
	leaders    = "leader.replication.throttled.replicas"
	followers  = "follower.replication.throttled.replicas"
)

// delayed is told of a client's requests that a broker asked to slow down.
type delayed struct{ times chan time.Duration }

func (d delayed) OnBrokerThrottle(_ kgo.BrokerMetadata, by time.Duration, _ bool) {
	select {
	case d.times <- by:
	default:
	}
}

// A move is held to the rate of the leader's side, or of the follower's. Consumers are
// not (B185 of package faults), nor is who is in sync, so that acks=all goes on. A
// higher rate counts at once, and no more than that goes.
func TestThrottle(t *testing.T) {
	for _, side := range []struct{ name, topic, broker, line string }{
		{"leader", leaders + "=0:1,0:2", "1", "broker 1 sends throttled replicas %d bytes a second"},
		{"follower", followers + "=0:3", "3", "broker 3 fetches %d bytes a second for throttled replicas"},
	} {
		t.Run(side.name, func(t *testing.T) {
			w := start(t)
			w.CreateOn("t", []int32{1, 2})
			const size = 16 * mib
			w.large("t", size/(64<<10))
			rate := side.name + ".replication.throttled.rate"
			w.setTopic("t", side.topic)
			w.setBroker(side.broker, rate+"=1")
			w.Move("t", []int32{1, 3})

			slowed := delayed{make(chan time.Duration, 1)}
			consumer := w.NewClient(kgo.ConsumeTopics("t"), kgo.WithHooks(slowed))
			for read := 0; read < size/(64<<10); {
				fetches := consumer.PollFetches(w.Within())
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				read += fetches.NumRecords()
			}
			select {
			case by := <-slowed.times:
				t.Errorf("a consumer is throttled for %v", by)
			default:
			}
			w.Produce("t", "one", "more")
			out := w.status()
			if !w.moving() {
				t.Fatalf("16 MiB have moved at a byte a second:\n%s", out)
			}
			w.says(out, "1 partition moves,", "t 0 1,2 1,3 1 3 ", fmt.Sprintf(side.line, 1))

			const bytesPerSecond = 4 * mib
			began := time.Now()
			left := size - len(w.Logs(2, "t")["t-0"])
			w.setBroker(side.broker, fmt.Sprintf("%s=%d", rate, bytesPerSecond))
			w.Await("the end of the move", func() bool { return !w.moving() })
			// What a second allows may go at once, and a fetch is on its way.
			slow := left - bytesPerSecond - 2*mib
			if took := time.Since(began); took < time.Duration(slow)*time.Second/bytesPerSecond {
				t.Errorf("%d bytes moved within %v at %d a second", left, took, bytesPerSecond)
			}
			w.AwaitISR("t", 1, 3)
			w.says(w.status(), "no partitions move", fmt.Sprintf(side.line, bytesPerSecond))
			w.setBroker(side.broker, rate)
			if out := w.status(); out != "no partitions move\n" {
				t.Errorf("without throttles: %s", out)
			}
		})
	}
}

// A rate for all brokers holds each of them; a topic's "*" names all its replicas. A
// broker that is started again goes by them too.
func TestThrottleOfAll(t *testing.T) {
	w := start(t)
	w.CreateOn("t", []int32{1})
	w.large("t", 8*mib/(64<<10))
	w.setTopic("t", leaders+"=*")
	w.setBroker("", leaderRate+"=1")
	w.Node(1).Stop()
	w.Node(1).Restart()
	w.Move("t", []int32{1, 2})
	w.Await("the first bytes", func() bool { return len(w.Logs(1, "t")["t-0"]) > 0 })
	w.says(w.status(), "1 partition moves", "broker 1 sends throttled replicas 1 bytes", "broker 3 sends throttled replicas 1 bytes")
	if !w.moving() {
		t.Error("8 MiB have moved at a byte a second")
	}
	w.setBroker("", leaderRate)
	w.AwaitISR("t", 1, 2)
}

// A move whose target is away says so, and waits.
func TestStatusOfDeadTarget(t *testing.T) {
	w := start(t)
	w.CreateOn("t", []int32{1})
	w.Produce("t", "a", "b")
	w.Node(3).Kill()
	w.Await("the death to be found out", func() bool {
		w.says(w.status(), "no partitions move")
		return len(w.alive()) == 2
	})
	w.Move("t", []int32{3})
	w.says(w.status(), "1 partition moves", "t 0 1 3 1 3 ? 1", "away")
	w.Node(3).Restart()
	w.AwaitISR("t", 3)
	w.Await("the end of the move", func() bool { return !w.moving() })
}
