//go:build integration

package harness

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

	"github.com/klamm/klamm/protocol"
)

// World is a cluster and a client.
type World struct {
	*Cluster
	T      *testing.T
	Client *kgo.Client

	Patience time.Duration // bounds what a test waits for
	Pause    time.Duration // from one look to the next where it waits

	opts []kgo.Opt // of all clients
}

// NewWorld is a cluster with a client. Its options are those of all clients.
func NewWorld(t *testing.T, c *Cluster, opts ...kgo.Opt) *World {
	t.Helper()
	// By default a client takes a death during a connection's first request for missing SASL.
	opts = append([]kgo.Opt{kgo.AlwaysRetryEOF()}, opts...)
	w := &World{T: t, Cluster: c, Patience: 3 * time.Minute, Pause: 5 * time.Millisecond, opts: opts}
	w.Client = w.NewClient()
	return w
}

// NewClient is one more client, which ends with the test.
func (w *World) NewClient(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	client, err := kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(w.Bootstrap()...)}, w.opts, opts)...)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(client.Close)
	return client
}

// Within is a context with the patience of the test.
func (w *World) Within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	w.T.Cleanup(cancel)
	return ctx
}

// Ask sends a request with the client's own retries.
func Ask[R kmsg.Response](w *World, req kmsg.Request) R {
	w.T.Helper()
	resp, err := w.Client.Request(w.Within(), req)
	if err != nil {
		w.T.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// AskAt is Ask at a broker that lives.
func AskAt[R kmsg.Response](w *World, id int32, req kmsg.Request) R {
	w.T.Helper()
	resp, err := w.Client.Broker(int(id)).RetriableRequest(w.Within(), req)
	if err != nil {
		w.T.Fatalf("%s at broker %d: %v", kmsg.NameForKey(req.Key()), id, err)
	}
	return resp.(R)
}

// Await polls until ok.
func (w *World) Await(what string, ok func() bool) {
	w.T.Helper()
	for deadline := time.Now().Add(w.Patience); !ok(); time.Sleep(w.Pause) {
		if time.Now().After(deadline) {
			w.T.Fatalf("after %v not yet: %s", w.Patience, what)
		}
	}
}

// Create creates a topic of three replicas, as a client does that tries again: it
// may find its own first attempt.
func (w *World) Create(topic string, partitions int32) {
	w.T.Helper()
	created(w, topic, Ask[*kmsg.CreateTopicsResponse](w, creation(topic, partitions)))
}

// CreateAt is Create at a broker that lives.
func (w *World) CreateAt(id int32, topic string, partitions int32) {
	w.T.Helper()
	created(w, topic, AskAt[*kmsg.CreateTopicsResponse](w, id, creation(topic, partitions)))
}

func creation(topic string, partitions int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 3
	req.Topics = append(req.Topics, t)
	return req
}

// CreateOn creates a topic with the replicas of each partition, whose first is to lead.
func (w *World) CreateOn(topic string, assignment ...[]int32) {
	w.T.Helper()
	req := creation(topic, -1)
	req.Topics[0].ReplicationFactor = -1
	for i, replicas := range assignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
	}
	created(w, topic, Ask[*kmsg.CreateTopicsResponse](w, req))
}

func created(w *World, topic string, resp *kmsg.CreateTopicsResponse) {
	w.T.Helper()
	for _, r := range resp.Topics {
		if code := protocol.Error(r.ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
			w.T.Fatalf("create %s: %v: %v", topic, code, r.ErrorMessage)
		}
	}
}

// Partitions is a topic as a living broker tells of it; nil where it does not
// know it yet.
func (w *World) Partitions(topic string) []kmsg.MetadataResponseTopicPartition {
	w.T.Helper()
	return partitionsOf(Ask[*kmsg.MetadataResponse](w, MetadataRequest(topic)))
}

func partitionsOf(resp *kmsg.MetadataResponse) []kmsg.MetadataResponseTopicPartition {
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		return nil
	}
	return resp.Topics[0].Partitions
}

// AwaitISR waits until these nodes say of all partitions of a topic that they
// are the ones in sync, and one of them leads.
func (w *World) AwaitISR(topic string, isr ...int32) {
	w.T.Helper()
	isr = slices.Sorted(slices.Values(isr))
	var last string
	defer func() {
		if w.T.Failed() {
			w.T.Log("the last answer: " + last)
		}
	}()
	w.Await(fmt.Sprintf("in-sync sets of %s to be %v", topic, isr), func() bool {
		for _, id := range isr {
			resp, err := w.Client.Broker(int(id)).Request(w.Within(), MetadataRequest(topic))
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

// Produce writes records with acks=all, one after the other, to partitions in turn.
func (w *World) Produce(topic string, values ...string) {
	w.T.Helper()
	for _, v := range values {
		if err := w.Client.ProduceSync(w.Within(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			w.T.Fatalf("produce %s to %s: %v", v, topic, err)
		}
	}
}

// Consume reads so many records of a topic from its start.
func (w *World) Consume(topic string, count int) []string {
	w.T.Helper()
	client := w.NewClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(w.Within())
		if err := fetches.Err(); err != nil {
			w.T.Fatalf("read %s: %v after %d of %d records", topic, err, len(values), count)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	slices.Sort(values)
	return values
}

// Ends are the ends of a topic's partitions, as consumers see them.
func (w *World) Ends(topic string) (ends []int64) {
	w.T.Helper()
	w.Await("the ends of "+topic, func() bool {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, known := range w.Partitions(topic) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = known.Partition, -1
			t.Partitions = append(t.Partitions, p)
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		req.Topics = append(req.Topics, t)
		ends = make([]int64, len(t.Partitions))
		answered := 0
		for _, t := range Ask[*kmsg.ListOffsetsResponse](w, req).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
				ends[p.Partition] = p.Offset
				answered++
			}
		}
		return answered > 0 && answered == len(ends)
	})
	return ends
}

// Count is the number of records of a topic that has lost none from its start.
func (w *World) Count(topic string) (records int64) {
	w.T.Helper()
	for _, end := range w.Ends(topic) {
		records += end
	}
	return records
}

// Move begins to give a topic's partitions, from the first on, other replicas.
func (w *World) Move(topic string, to ...[]int32) {
	w.T.Helper()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	for i, replicas := range to {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = int32(i), replicas
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, t)
	resp := Ask[*kmsg.AlterPartitionAssignmentsResponse](w, req)
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		w.T.Fatalf("move %s: %v", topic, code)
	}
	for _, p := range resp.Topics[0].Partitions {
		if code := protocol.Error(p.ErrorCode); code != protocol.None {
			w.T.Fatalf("move %s-%d: %v", topic, p.Partition, code)
		}
	}
}

// AwaitCanStop waits until klamm can-stop says that a broker may be stopped.
func (w *World) AwaitCanStop(id int32) {
	w.T.Helper()
	var said string
	defer func() {
		if w.T.Failed() {
			w.T.Log(said)
		}
	}()
	w.Await(fmt.Sprintf("broker %d to be one that can be stopped", id), func() bool {
		out, errOut, ok := Run(w.T, "can-stop", fmt.Sprint(id), "--bootstrap-server", strings.Join(w.Bootstrap(), ","))
		said = out + errOut
		return ok
	})
}

// Controller is the active controller.
func (w *World) Controller() int32 {
	w.T.Helper()
	req := QuorumRequest(protocol.MetadataTopic, 0)
	leader := int32(-1)
	w.Await("a controller", func() bool {
		resp := Ask[*kmsg.DescribeQuorumResponse](w, req)
		if resp.ErrorCode == 0 && len(resp.Topics) == 1 && resp.Topics[0].Partitions[0].ErrorCode == 0 {
			leader = resp.Topics[0].Partitions[0].LeaderID
		}
		return leader > 0
	})
	return leader
}

// SameLogs stops all nodes and compares the bytes of each partition's replicas.
func (w *World) SameLogs(topics ...string) {
	w.T.Helper()
	for _, n := range w.Nodes {
		n.Kill()
	}
	for _, topic := range topics {
		first := w.Logs(0, topic)
		if len(first) == 0 {
			w.T.Errorf("node 1 has no log of %s", topic)
		}
		for i := 1; i < len(w.Nodes); i++ {
			other := w.Logs(i, topic)
			if len(other) != len(first) {
				w.T.Errorf("node %d has %d partitions of %s, node 1 %d", i+1, len(other), topic, len(first))
			}
			for dir, data := range first {
				if !bytes.Equal(data, other[dir]) {
					w.T.Errorf("%s: node %d has %d bytes, node 1 %d others", dir, i+1, len(other[dir]), len(data))
				}
			}
		}
	}
}

// Logs are the bytes of a topic's partitions on a node.
func (w *World) Logs(node int, topic string) map[string][]byte {
	w.T.Helper()
	out := make(map[string][]byte)
	files, err := filepath.Glob(filepath.Join(w.Nodes[node].Data(), topic+"-*", "*.log"))
	if err != nil {
		w.T.Fatal(err)
	}
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			w.T.Fatal(err)
		}
		dir := filepath.Base(filepath.Dir(file))
		// A kill came before it had its topic's id, or its files were not gone yet.
		if strings.HasSuffix(dir, "-stray") || strings.HasSuffix(dir, "-delete") {
			continue
		}
		out[dir] = append(out[dir], data...)
	}
	return out
}

// Logged waits for a line in a node's log.
func (w *World) Logged(n *Node, text string) {
	w.T.Helper()
	w.Await(fmt.Sprintf("the line %q in a log", text), func() bool { return strings.Contains(n.Log(), text) })
}

// MustHave fails where a topic lacks values.
func (w *World) MustHave(topic string, values []string) {
	w.T.Helper()
	got := w.Consume(topic, len(values))
	for _, v := range values {
		if !slices.Contains(got, v) {
			w.T.Errorf("%s lacks %s, which was acknowledged", topic, v)
		}
	}
}

// Leader is the leader of the first partition of a topic.
func (w *World) Leader(topic string) int32 {
	w.T.Helper()
	var leader int32
	w.Await("a leader of "+topic, func() bool {
		parts := w.Partitions(topic)
		if len(parts) == 0 {
			return false
		}
		leader = parts[0].Leader
		return leader > 0
	})
	return leader
}
