//go:build integration

package cluster

import (
	"bytes"
	"context"
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

// patience bounds what a test waits for.
const patience = 60 * time.Second

// world is three combined nodes and a client with its defaults.
type world struct {
	*harness.Cluster
	t      *testing.T
	client *kgo.Client
}

func start(t *testing.T, settings ...string) *world {
	t.Helper()
	w := &world{t: t, Cluster: harness.StartCluster(t, 3, append([]string{"auto.create.topics.enable=false"}, settings...)...)}
	w.client = w.newClient()
	return w
}

func (w *world) newClient(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.Bootstrap()...)}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// ask sends a request with the client's own retries.
func ask[R kmsg.Response](w *world, req kmsg.Request) R {
	w.t.Helper()
	resp, err := w.client.Request(within(w.t), req)
	if err != nil {
		w.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// await polls until ok.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// create creates a topic of three replicas, as a client does that tries again: it
// may find its own first attempt.
func (w *world) create(topic string, partitions int32) {
	w.t.Helper()
	created(w, topic, ask[*kmsg.CreateTopicsResponse](w, creation(topic, partitions)))
}

// createAt is create at a broker that lives.
func (w *world) createAt(id int32, topic string, partitions int32) {
	w.t.Helper()
	resp, err := w.client.Broker(int(id)).RetriableRequest(within(w.t), creation(topic, partitions))
	if err != nil {
		w.t.Fatalf("create %s at broker %d: %v", topic, id, err)
	}
	created(w, topic, resp.(*kmsg.CreateTopicsResponse))
}

func creation(topic string, partitions int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 3
	req.Topics = append(req.Topics, t)
	return req
}

func created(w *world, topic string, resp *kmsg.CreateTopicsResponse) {
	w.t.Helper()
	for _, r := range resp.Topics {
		if code := protocol.Error(r.ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
			w.t.Fatalf("create %s: %v: %v", topic, code, r.ErrorMessage)
		}
	}
}

// partitions is a topic as a living broker tells of it; nil where it does not
// know it yet.
func (w *world) partitions(topic string) []kmsg.MetadataResponseTopicPartition {
	w.t.Helper()
	return partitionsOf(ask[*kmsg.MetadataResponse](w, metadataRequest(topic)))
}

func metadataRequest(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

func partitionsOf(resp *kmsg.MetadataResponse) []kmsg.MetadataResponseTopicPartition {
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		return nil
	}
	return resp.Topics[0].Partitions
}

// awaitISR waits until these nodes say of all partitions of a topic that they
// are the ones in sync, and one of them leads.
func (w *world) awaitISR(topic string, isr ...int32) {
	w.t.Helper()
	var last string
	defer func() {
		if w.t.Failed() {
			w.t.Log("the last answer: " + last)
		}
	}()
	w.await(fmt.Sprintf("in-sync sets of %s to be %v", topic, isr), func() bool {
		for _, id := range isr {
			resp, err := w.client.Broker(int(id)).Request(within(w.t), metadataRequest(topic))
			if err != nil {
				last = err.Error()
				return false
			}
			parts := partitionsOf(resp.(*kmsg.MetadataResponse))
			last = fmt.Sprintf("broker %d: %+v", id, parts)
			if len(parts) == 0 || slices.ContainsFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool {
				return !slices.Equal(slices.Sorted(slices.Values(p.ISR)), isr) || !slices.Contains(isr, p.Leader)
			}) {
				return false
			}
		}
		return true
	})
}

// produce writes records with acks=all, one after the other, to partitions in turn.
func (w *world) produce(topic string, values ...string) {
	w.t.Helper()
	for _, v := range values {
		if err := w.client.ProduceSync(within(w.t), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			w.t.Fatalf("produce %s to %s: %v", v, topic, err)
		}
	}
}

// consume reads so many records of a topic from its start.
func (w *world) consume(topic string, count int) []string {
	w.t.Helper()
	client := w.newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(within(w.t))
		if err := fetches.Err(); err != nil {
			w.t.Fatalf("read %s: %v after %d of %d records", topic, err, len(values), count)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	slices.Sort(values)
	return values
}

// controller is the active controller.
func (w *world) controller() int32 {
	w.t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = protocol.MetadataTopic
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	leader := int32(-1)
	w.await("a controller", func() bool {
		resp := ask[*kmsg.DescribeQuorumResponse](w, req)
		if resp.ErrorCode == 0 && len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode == 0 {
			leader = resp.Topics[0].Partitions[0].LeaderID
		}
		return leader > 0
	})
	return leader
}

// sameLogs stops all nodes and compares the bytes of each partition's replicas.
func (w *world) sameLogs(topics ...string) {
	w.t.Helper()
	for _, n := range w.Nodes {
		n.Kill()
	}
	for _, topic := range topics {
		first := w.logs(0, topic)
		if len(first) == 0 {
			w.t.Errorf("node 1 has no log of %s", topic)
		}
		for i := 1; i < len(w.Nodes); i++ {
			other := w.logs(i, topic)
			if len(other) != len(first) {
				w.t.Errorf("node %d has %d partitions of %s, node 1 %d", i+1, len(other), topic, len(first))
			}
			for dir, data := range first {
				if !bytes.Equal(data, other[dir]) {
					w.t.Errorf("%s: node %d has %d bytes, node 1 %d others", dir, i+1, len(other[dir]), len(data))
				}
			}
		}
	}
}

// logs are the bytes of a topic's partitions on a node.
func (w *world) logs(node int, topic string) map[string][]byte {
	w.t.Helper()
	out := make(map[string][]byte)
	files, err := filepath.Glob(filepath.Join(w.Nodes[node].Data(), topic+"-*", "*.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		dir := filepath.Base(filepath.Dir(file))
		out[dir] = append(out[dir], data...)
	}
	return out
}

// logged waits for a line in a node's log.
func (w *world) logged(n *harness.Node, text string) {
	w.t.Helper()
	w.await(fmt.Sprintf("the line %q in a log", text), func() bool { return strings.Contains(n.Log(), text) })
}

func numbered(prefix string, count int) []string {
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}

// mustHave fails where a topic lacks values.
func (w *world) mustHave(topic string, values []string) {
	w.t.Helper()
	got := w.consume(topic, len(values))
	for _, v := range values {
		if !slices.Contains(got, v) {
			w.t.Errorf("%s lacks %s, which was acknowledged", topic, v)
		}
	}
}
