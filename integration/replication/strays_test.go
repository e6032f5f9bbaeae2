//go:build integration

package replication

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// A broker was away while topics were deleted, and one made anew: its old copies are set
// aside, served to nobody, kept over restarts, and go when somebody says so.
func TestStrays(t *testing.T) {
	w := start(t)
	for _, topic := range []string{"gone", "again"} {
		w.Create(topic, 1)
		w.AwaitISR(topic, 1, 2, 3)
		w.Produce(topic, "old-1", "old-2")
	}
	away := w.Controller()%3 + 1
	w.Node(away).Kill()
	for _, topic := range []string{"gone", "again"} {
		w.AwaitISR(topic, w.Others(away)...)
		req := kmsg.NewPtrDeleteTopicsRequest()
		named := kmsg.NewDeleteTopicsRequestTopic()
		named.Topic = kmsg.StringPtr(topic)
		req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, named), []string{topic}, 30_000
		for _, r := range harness.AskAt[*kmsg.DeleteTopicsResponse](w.World, w.Others(away)[0], req).Topics {
			if r.ErrorCode != 0 {
				t.Fatalf("delete %s: %d", topic, r.ErrorCode)
			}
		}
	}
	w.CreateAt(w.Others(away)[0], "again", 1)
	w.AwaitISR("again", w.Others(away)...)
	fresh := w.NewClient()
	produced := make([]string, 0, 2)
	for _, value := range []string{"new-1", "new-2"} {
		w.Client = fresh // which knows nothing of the first topic
		w.Produce("again", value)
		produced = append(produced, value)
	}
	for range 2 {
		w.Node(away).Restart()
		w.AwaitISR("again", 1, 2, 3)
		origins := make(map[string]string)
		for _, s := range strays(t, w.Node(away).Data()) {
			origins[s.Topic] = s.Origin
			if s.Bytes == 0 || s.Partition != 0 {
				t.Errorf("%+v", s)
			}
		}
		if len(origins) != 2 || origins["gone"] != "topic deleted" || origins["again"] != "topic deleted; another one has its name" {
			t.Errorf("set aside: %v", origins)
		}
		w.MustHave("again", produced)
		if out, equal := w.verify("again"); !equal {
			t.Errorf("verify:\n%s", out)
		}
		w.Node(away).Stop()
	}
	w.Node(away).Restart()
	all := strays(t, w.Node(away).Data())
	if removed := strays(t, "--remove", all[0].Path); len(removed) != 1 || !removed[0].Removed {
		t.Errorf("removed: %+v", removed)
	}
	if left := strays(t, w.Node(away).Data()); len(left) != 1 || left[0].Path != all[1].Path {
		t.Errorf("left: %+v", left)
	}
	strays(t, "--remove", w.Node(away).Data())
	for _, s := range all {
		if _, err := os.Stat(s.Path); err == nil {
			t.Errorf("%s is still there", s.Path)
		}
	}
	w.AwaitISR("again", 1, 2, 3)
	w.SameLogs("again")
}

type stray struct {
	Path, Topic, Origin string
	Partition           int32
	Bytes               int64
	Removed             bool
}

// strays is klamm log strays.
func strays(t *testing.T, args ...string) (found []stray) {
	t.Helper()
	out := harness.MustRun(t, append([]string{"log", "strays", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	return found
}
