//go:build integration

package inspection

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// world is a cluster and a client of it.
type world struct{ *harness.World }

func newWorld(t *testing.T, c *harness.Cluster) *world {
	t.Helper()
	return &world{harness.NewWorld(t, c, kgo.MetadataMinAge(100*time.Millisecond))}
}

// creation is a request for a topic with a config of its own.
func creation(name string, partitions int32, replicas int16) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replicas
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Name, config.Value = "retention.ms", kmsg.StringPtr("7200000")
	topic.Configs = append(topic.Configs, config)
	req.Topics = append(req.Topics, topic)
	return req
}

// create creates a topic. An attempt that was cut off may have created it.
func (w *world) create(name string, partitions int32, replicas int16) {
	w.T.Helper()
	w.Await("topic "+name, func() bool {
		resp := harness.Ask[*kmsg.CreateTopicsResponse](w.World, creation(name, partitions, replicas))
		code := protocol.Error(resp.Topics[0].ErrorCode)
		if code == protocol.ErrInvalidTopicException {
			w.T.Fatalf("%s: %v", name, code)
		}
		return code == protocol.None || code == protocol.ErrTopicAlreadyExists
	})
}

// topic is what a broker's metadata says of a topic.
func (w *world) topic(name string) kmsg.MetadataResponseTopic {
	w.T.Helper()
	return harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest(name)).Topics[0]
}

// awaitInSync waits until all partitions have a leader and so many replicas in sync.
func (w *world) awaitInSync(name string, replicas int) {
	w.T.Helper()
	w.Await(fmt.Sprintf("%s with %d in sync", name, replicas), func() bool {
		t := w.topic(name)
		return t.ErrorCode == 0 && !slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader < 0 || len(p.ISR) != replicas
		})
	})
}

func (w *world) produce(topic string, count int) {
	w.T.Helper()
	for i := range count {
		if err := w.Client.ProduceSync(w.Within(), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", i)}).FirstErr(); err != nil {
			w.T.Fatal(err)
		}
	}
}

// consume reads so many records of a topic.
func (w *world) consume(topic string, count int) {
	w.T.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Bootstrap()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.T.Fatal(err)
	}
	defer client.Close()
	ctx := w.Within()
	for have := 0; have < count; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.T.Fatalf("%s has %d records of %d", topic, have, count)
		}
		have += fetches.NumRecords()
	}
}

// klamm runs a command that does not fail.
func (w *world) klamm(args ...string) string {
	w.T.Helper()
	return harness.MustRun(w.T, args...)
}

// says compares a text with what must be in it.
func says(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("this does not say %q:\n%s", want, text)
		}
	}
}

// killAll kills all nodes at once.
func (w *world) killAll(nodes ...*harness.Node) {
	w.T.Helper()
	for _, n := range nodes {
		n.Kill()
	}
}

// files are a directory's files and what is in them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
