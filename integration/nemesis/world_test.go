//go:build integration

package nemesis

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/integration/nemesis/history"
	"github.com/klamm/klamm/protocol"
)

const (
	topic      = "loaded"
	partitions = 8
)

// The session is short, as much here waits for its end.
const session = 4 * time.Second

// world is a cluster under load. One goroutine, the test's, breaks it.
type world struct {
	*harness.World
	*scenario
	net     *harness.Network
	rand    *rand.Rand
	seed    uint64
	history *history.Recorder
	load    *load
	report  *history.Report // once end has checked the history
	least   int             // in-sync replicas that a partition had at any time, likewise

	// replicas are the brokers that have the topic in the end; scenarios that move it
	// change them.
	replicas []int32

	until  time.Time // when the faults end
	dead   map[int32]bool
	frozen map[int32]bool
}

// begin starts a cluster and the load on it.
func begin(t *testing.T, s scenario, seed uint64) *world {
	t.Helper()
	began := time.Now()
	w := &world{
		scenario: &s, seed: seed, rand: rand.New(rand.NewPCG(seed, uint64(s.number))),
		history: history.NewRecorder(), replicas: []int32{1, 2, 3},
		dead: make(map[int32]bool), frozen: make(map[int32]bool),
	}
	hosts := harness.Hosts{
		Brokers: cmp.Or(s.brokers, 3), Controllers: 3, Dynamic: s.dynamic, Waiting: s.waiting, Binary: built(t, s.tags),
		Settings: append([]string{
			"auto.create.topics.enable=false",
			fmt.Sprintf("broker.session.timeout.ms=%d", session.Milliseconds()),
			"broker.heartbeat.interval.ms=500",
			"replica.lag.time.max.ms=3000",
			"group.initial.rebalance.delay.ms=0",
			"offsets.topic.num.partitions=4",
			"offsets.topic.replication.factor=3",
		}, s.settings...),
	}
	if s.combined {
		hosts.Controllers = 0
	}
	cluster, network := hosts.Start(t)
	w.net = network
	w.World = harness.NewWorld(t, cluster, kgo.MetadataMinAge(100*time.Millisecond), kgo.RequestTimeoutOverhead(5*time.Second))
	w.Pause = 50 * time.Millisecond
	t.Cleanup(func() {
		if *keep != "" {
			w.keep()
		}
	})
	w.create()
	w.AwaitISR(topic, w.replicas...)
	w.startLoad()
	w.goesOn()
	long := *duration
	if *which == "short" {
		long = s.short
	}
	w.until = time.Now().Add(max(long, s.atLeast))
	t.Logf("the load runs after %v", time.Since(began).Round(time.Millisecond))
	return w
}

// built is the binary with build tags, "" that which the tests are about.
func built(t *testing.T, tags string) string {
	t.Helper()
	if tags == "" {
		return harness.Binary(t)
	}
	return harness.Build(t, tags)
}

// create creates the topic on brokers 1 to 3, each of which is the first of some.
func (w *world) create() {
	w.T.Helper()
	created := kmsg.NewCreateTopicsRequestTopic()
	created.Topic, created.NumPartitions, created.ReplicationFactor = topic, -1, -1
	for p := range int32(partitions) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = p
		for i := range int32(3) {
			a.Replicas = append(a.Replicas, (p+i)%3+1)
		}
		created.ReplicaAssignment = append(created.ReplicaAssignment, a)
	}
	configs := map[string]string{"min.insync.replicas": "2"}
	maps.Copy(configs, w.configs)
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		created.Configs = append(created.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, created)
	resp := harness.Ask[*kmsg.CreateTopicsResponse](w.World, req)
	if code := protocol.Error(resp.Topics[0].ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
		w.T.Fatalf("create %s: %v", topic, code)
	}
}

// ids are those of all nodes.
func (w *world) ids() (ids []int32) {
	for i := range w.Controllers {
		ids = append(ids, int32(i+101))
	}
	return append(ids, w.brokers()...)
}

func (w *world) brokers() (ids []int32) {
	for i := range w.Nodes {
		ids = append(ids, int32(i+1))
	}
	return ids
}

// keep leaves what a run had.
func (w *world) keep() {
	for _, n := range w.All() {
		n.Kill()
	}
	dir := filepath.Join(*keep, fmt.Sprintf("%d-%s-%d", w.number, w.name, w.seed))
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	for _, id := range w.ids() {
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, fmt.Sprint("node-", id)), os.DirFS(filepath.Dir(w.Node(id).Config())))
		}
	}
	if err == nil {
		var file *os.File
		if file, err = os.Create(filepath.Join(dir, "history.json")); err == nil {
			err = history.Write(file, w.history.Events())
			file.Close()
		}
	}
	if err != nil {
		w.T.Errorf("keep %s: %v", dir, err)
		return
	}
	w.T.Logf("what is left is in %s", dir)
}

// sorted is a list of ids for a log.
func sorted(ids map[int32]bool) string {
	var words []string
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words, ",")
}
