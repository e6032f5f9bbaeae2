//go:build integration

package replication

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// startApart is a controller and three brokers, any of which may be away.
func startApart(t *testing.T) *world {
	t.Helper()
	c := harness.StartSplit(t, make([]harness.Kind, 1), make([]harness.Kind, 3), "auto.create.topics.enable=false")
	return &world{harness.NewWorld(t, c)}
}

// electUnclean elects a leader for partition 0 that may have lost records, which is
// this broker. Who lives, and who does not, has to be found out first.
func (w *world) electUnclean(topic string, to int32) {
	w.T.Helper()
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis, req.Topics = 1, 30_000, append(req.Topics, t)
	w.Await("an unclean election", func() bool {
		resp := harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
		switch code := protocol.Error(resp.Topics[0].Partitions[0].ErrorCode); code {
		case protocol.None:
			return true
		case protocol.ErrElectionNotNeeded:
			parts := w.Partitions(topic)
			return len(parts) > 0 && parts[0].Leader == to
		case protocol.ErrEligibleLeadersNotAvailable:
			return false
		default:
			w.T.Fatal(code)
		}
		return false
	})
}

func numbered(prefix string, count int) []string {
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return out
}

// An unclean election says what it costs: at once from where on, and when a replica
// comes back that had more, which offsets, in the log of the leader and as the cause in
// the metadata. After a stop in order it is known what had been committed; after a
// kill that was in memory.
func TestLossStatement(t *testing.T) {
	for _, how := range []struct {
		name string
		end  func(*harness.Node)
		want string
	}{
		{"stopped", (*harness.Node).Stop, "lost: offsets 10 to 14, which had been committed"},
		{"killed", (*harness.Node).Kill, "lost: offsets 10 to 14, "},
	} {
		t.Run(how.name, func(t *testing.T) {
			w := startApart(t)
			w.CreateOn("t", []int32{1, 2})
			kept := numbered("kept", 10)
			w.Produce("t", kept...)
			w.Node(2).Kill()
			w.AwaitISR("t", 1)
			w.Produce("t", numbered("lost", 5)...)
			how.end(w.Node(1))
			w.Node(2).Restart()
			w.electUnclean("t", 2)
			w.AwaitISR("t", 2)
			w.Logged(w.Node(2), `"offset":10,`)
			w.Logged(w.Node(2), "elected without having been in sync: what others had from this offset on is lost")
			after := numbered("after", 3)
			w.Produce("t", after...)
			w.Node(1).Restart()
			w.AwaitISR("t", 1, 2)
			w.Logged(w.Node(2), `"replica":1,"from":10,"to":15,`)
			w.MustHave("t", append(kept, after...))
			history := harness.MustRun(t, "metadata", "history", w.Controllers[0].Data(), "partition", "t/0")
			for _, want := range []string{"unclean election", how.want} {
				if !strings.Contains(history, want) {
					t.Errorf("no %q in:\n%s", want, history)
				}
			}
		})
	}
}

// A replica is elected that has nothing yet: all is lost, and said so, and who had it
// comes back.
func TestLossOfAll(t *testing.T) {
	w := startApart(t)
	w.CreateOn("t", []int32{1})
	w.Produce("t", numbered("lost", 5)...)
	w.Node(3).Kill()
	w.Move("t", []int32{1, 3})
	w.Node(1).Stop()
	w.Node(3).Restart()
	w.electUnclean("t", 3)
	w.AwaitISR("t", 3)
	after := numbered("after", 3)
	w.Produce("t", after...)
	w.Node(1).Restart()
	w.AwaitISR("t", 1, 3)
	w.MustHave("t", after)
	w.Logged(w.Node(3), `"replica":1,"from":0,"to":5,"committed":5,`)
	history := harness.MustRun(t, "metadata", "history", w.Controllers[0].Data(), "partition", "t/0")
	if want := "lost: offsets 0 to 4, which had been committed"; !strings.Contains(history, want) {
		t.Errorf("no %q in:\n%s", want, history)
	}
}
