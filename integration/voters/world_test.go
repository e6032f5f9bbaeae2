//go:build integration

package voters

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// world is a cluster whose controllers, 101 and following, come and go.
type world struct{ *harness.World }

func start(t *testing.T, voters, waiting int, settings ...string) *world {
	t.Helper()
	return &world{harness.NewWorld(t, harness.StartDynamic(t, voters, waiting, 1, append([]string{"offsets.topic.replication.factor=1"}, settings...)...))}
}

func (w *world) controller(id int) *harness.Node { return w.Controllers[id-101] }

// quorum is what klamm quorum status says.
type quorum struct {
	Leader, Epoch int
	Voters        []replica
	Observers     []replica
}

type replica struct {
	Node        int
	DirectoryID string
	Lag         int64
}

// quorum asks whoever answers of these controllers.
func (w *world) quorum(at ...int) quorum {
	w.T.Helper()
	var q quorum
	if err := json.Unmarshal([]byte(harness.MustRun(w.T, "quorum", "status", "--json", "--bootstrap-controller", w.addresses(at))), &q); err != nil {
		w.T.Fatal(err)
	}
	return q
}

func (w *world) addresses(at []int) string {
	var servers []string
	for _, id := range at {
		servers = append(servers, w.controller(id).Controller)
	}
	return strings.Join(servers, ",")
}

// without are the ids but one.
func without(ids []int, id int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(other int) bool { return other == id })
}

func ids(replicas []replica) []int {
	out := []int{}
	for _, r := range replicas {
		out = append(out, r.Node)
	}
	slices.Sort(out)
	return out
}

// change runs klamm quorum add, remove or replace, asking these controllers.
func (w *world) change(what string, id int, at ...int) {
	w.T.Helper()
	began := time.Now()
	harness.MustRun(w.T, "quorum", what, strconv.Itoa(id), "--bootstrap-controller", w.addresses(at), "--timeout", "60s")
	w.T.Logf("quorum %s %d: %v", what, id, time.Since(began).Round(time.Millisecond))
}

// kafka runs Kafka's own tool at the broker.
func (w *world) kafka(args ...string) string {
	w.T.Helper()
	return w.tool("metadata-quorum", append([]string{"--bootstrap-server", w.Nodes[0].Address}, args...)...)
}

// tool runs one of Kafka's tools.
func (w *world) tool(name string, args ...string) string {
	w.T.Helper()
	out, err := exec.Command(harness.KafkaTools(w.T), append([]string{name}, args...)...).CombinedOutput()
	if err != nil {
		w.T.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// awaitVoters waits until these vote, and one of them leads.
func (w *world) awaitVoters(want []int, at ...int) quorum {
	w.T.Helper()
	var q quorum
	w.Await(fmt.Sprintf("voters %v", want), func() bool {
		q = w.quorum(at...)
		return slices.Equal(ids(q.Voters), want) && slices.Contains(want, q.Leader)
	})
	return q
}

// load creates topics and writes records, without a break, until it is stopped.
type load struct {
	w      *world
	client *kgo.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	topics   []string // whose creation was acknowledged
	records  []string // likewise
	failures []string
	gap      time.Duration // the longest between two acknowledged creations
}

const records = "records"

func (w *world) load() *load {
	w.T.Helper()
	client := w.NewClient(kgo.DefaultProduceTopic(records))
	l := &load{w: w, client: client}
	if err := l.create(w.T.Context(), records); err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.T.Context())
	l.stop = cancel
	w.T.Cleanup(cancel)
	l.done.Go(func() {
		for i, last := 0, time.Now(); ctx.Err() == nil; i++ {
			name := fmt.Sprintf("topic-%04d", i)
			err := l.create(context.WithoutCancel(ctx), name)
			l.mu.Lock()
			if err == nil {
				l.topics = append(l.topics, name)
				l.gap, last = max(l.gap, time.Since(last)), time.Now()
			} else {
				l.failures = append(l.failures, name+": "+err.Error())
			}
			l.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		}
	})
	l.done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			value := fmt.Sprintf("record-%06d", i)
			err := client.ProduceSync(context.WithoutCancel(ctx), &kgo.Record{Value: []byte(value)}).FirstErr()
			l.mu.Lock()
			if err == nil {
				l.records = append(l.records, value)
			} else {
				l.failures = append(l.failures, value+": "+err.Error())
			}
			l.mu.Unlock()
		}
	})
	return l
}

// create creates a topic, as a client does that tries again and may find its own
// first attempt.
func (l *load) create(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, l.w.Patience)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	answer, err := l.client.Request(ctx, req)
	if err != nil {
		return err
	}
	if code := protocol.Error(answer.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
		return code
	}
	return nil
}

// count is how many creations were acknowledged so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.topics)
}

// goesOn waits until something more was acknowledged.
func (l *load) goesOn() {
	l.w.T.Helper()
	before := l.count()
	l.w.Await("topics to be created", func() bool { return l.count() > before+5 })
}

// end stops the load. All that was acknowledged has to be there.
func (l *load) end() {
	l.w.T.Helper()
	l.stop()
	l.done.Wait()
	t := l.w.T
	t.Logf("%d topics, %d records, at most %v between two topics", len(l.topics), len(l.records), l.gap.Round(time.Millisecond))
	for _, f := range l.failures {
		t.Error("failed: " + f)
	}
	answer, err := l.client.Request(t.Context(), kmsg.NewPtrMetadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, topic := range answer.(*kmsg.MetadataResponse).Topics {
		known[*topic.Topic] = len(topic.Partitions) == 1
	}
	for _, name := range l.topics {
		if !known[name] {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
	reader := l.w.NewClient(kgo.ConsumeTopics(records), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), l.w.Patience)
	defer cancel()
	found := make(map[string]bool)
	for len(found) < len(l.records) {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records were read: %v", len(found), len(l.records), err)
		}
		fetches.EachRecord(func(r *kgo.Record) { found[string(r.Value)] = true })
	}
	for _, value := range l.records {
		if !found[value] {
			t.Errorf("%s was acknowledged and is not there", value)
		}
	}
}

// sameMetadata waits until all these nodes have the same metadata at one offset.
func (w *world) sameMetadata(nodes ...*harness.Node) {
	w.T.Helper()
	// One node's end is an offset that the others reach.
	at, _, _ := strings.Cut(strings.TrimPrefix(harness.MustRun(w.T, "metadata", "digest", nodes[0].Data()), "offset "), " ")
	var digests map[string][]string
	w.Await("all nodes to have the metadata up to "+at, func() bool {
		digests = make(map[string][]string)
		for _, n := range nodes {
			out, errOut, ok := harness.Run(w.T, "metadata", "digest", "--at", at, n.Data())
			if !ok || !strings.HasPrefix(out, "offset "+at+" ") {
				w.T.Logf("%s: %s%s", n.Data(), out, errOut)
				return false
			}
			digests[out] = append(digests[out], n.Data())
		}
		return true
	})
	if len(digests) != 1 {
		w.T.Errorf("the metadata differs: %v", digests)
	}
}
