//go:build integration

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// tool runs one of Kafka's tools by its class, and returns what it printed.
func (w *world) tool(class string, args ...string) string {
	w.T.Helper()
	args = append([]string{"java", "org.apache.kafka.tools." + class, "--bootstrap-server", strings.Join(w.Bootstrap(), ",")}, args...)
	out, err := exec.Command(harness.KafkaTools(w.T), args...).CombinedOutput()
	if err != nil {
		w.T.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

const (
	reassign = "reassign.ReassignPartitionsCommand"
	election = "LeaderElectionCommand"
)

// file writes a tool's JSON.
func (w *world) file(text string) string {
	w.T.Helper()
	path := filepath.Join(w.T.TempDir(), "plan.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.T.Fatal(err)
	}
	return path
}

func (w *world) says(out, want string) {
	w.T.Helper()
	if !strings.Contains(out, want) {
		w.T.Errorf("no %q in:\n%s", want, out)
	}
}

// A partition with records is moved, grown, and shrunk.
func TestReassignment(t *testing.T) {
	w := start(t, "log.segment.delete.delay.ms=500")
	w.tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2")
	acked := numbered("r", 200)
	w.Produce("t", acked...)
	for _, step := range []struct {
		to  string
		isr []int32
	}{
		{"[3]", []int32{3}},
		{"[2,3,1]", []int32{1, 2, 3}},
		{"[1,2]", []int32{1, 2}},
	} {
		plan := w.file(fmt.Sprintf(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":%s}]}`, step.to))
		w.says(w.tool(reassign, "--execute", "--reassignment-json-file", plan), "Successfully started partition reassignment for t-0")
		w.Await("the reassignment to "+step.to, func() bool {
			return strings.Contains(w.tool(reassign, "--verify", "--reassignment-json-file", plan), "Reassignment of partition t-0 is completed.")
		})
		w.says(w.tool(reassign, "--list"), "No partition reassignments found.")
		w.AwaitISR("t", step.isr...)
		more := numbered("to"+step.to, 20)
		w.Produce("t", more...)
		acked = append(acked, more...)
		// Who was removed has nothing left.
		for id := range int32(3) {
			if slices.Contains(step.isr, id+1) {
				continue
			}
			w.Await(fmt.Sprintf("node %d to let its replica go", id+1), func() bool { return len(w.Logs(int(id), "t")) == 0 })
		}
	}
	w.MustHave("t", acked)
}

// A reassignment to a broker that is away waits for it. The tool wants one that is
// not fenced, so its death is not to be found out too soon. A config of its own the
// controller takes meanwhile, no other broker does (B095).
func TestReassignmentWaits(t *testing.T) {
	w := start(t, "klamm.fast.failure.detection=false", "broker.session.timeout.ms=20000")
	w.tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2")
	w.Produce("t", numbered("r", 20)...)
	w.Node(3).Kill()
	plan := w.file(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}`)
	w.tool(reassign, "--execute", "--reassignment-json-file", plan)
	w.says(w.tool(reassign, "--list"), "t-0: replicas: 1,3,2. adding: 3. removing: 2.")
	if code := w.setConfig(w.Client.Broker(1), kmsg.ConfigResourceTypeBroker, "3", rate, "1000000"); code != protocol.ErrInvalidRequest {
		t.Errorf("broker 1 answers %v for broker 3", code)
	}
	// There may be another controller now.
	controller := w.NewClient(kgo.SeedBrokers(w.Node(w.Controller()).Controller)).SeedBrokers()[0]
	if code := w.setConfig(controller, kmsg.ConfigResourceTypeBroker, "3", rate, "1000000"); code != protocol.None {
		t.Errorf("the controller answers %v for broker 3", code)
	}
	w.Node(3).Restart()
	w.AwaitISR("t", 1, 3)
	if got := w.configs(3, kmsg.ConfigResourceTypeBroker, "3")[rate]; got != "1000000" {
		t.Errorf("%s is %q", rate, got)
	}
}

const rate = "leader.replication.throttled.rate"

// configs are the set ones of a resource, as a broker tells them.
func (w *world) configs(at int32, kind kmsg.ConfigResourceType, resource string) map[string]string {
	w.T.Helper()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := w.Client.Broker(int(at)).Request(w.Within(), req)
	if err != nil {
		w.T.Fatal(err)
	}
	set := make(map[string]string)
	for _, c := range resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig || c.Source == kmsg.ConfigSourceDynamicBrokerConfig {
			set[c.Name] = *c.Value
		}
	}
	return set
}

// A move with a throttle is overridden by another one; where that has ended, nothing
// of either throttle is left (B096). One of a topic that is not there begins nothing,
// also of the others in its plan (B192).
func TestReassignmentThrottled(t *testing.T) {
	w := start(t)
	w.tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2")
	w.Produce("t", numbered("r", 20)...)
	plan := func(replicas string) string {
		return w.file(fmt.Sprintf(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":%s}]}`, replicas))
	}
	args := append([]string{"java", "org.apache.kafka.tools." + reassign, "--bootstrap-server", strings.Join(w.Bootstrap(), ","), "--execute", "--reassignment-json-file"},
		w.file(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]},{"topic":"missing","partition":0,"replicas":[1,3]}]}`))
	out, err := exec.Command(harness.KafkaTools(t), args...).CombinedOutput()
	if err == nil {
		t.Errorf("a plan with a missing topic is executed:\n%s", out)
	}
	w.says(string(out), "UnknownTopicOrPartition")
	w.AwaitISR("t", 1, 2)

	w.tool(reassign, "--execute", "--reassignment-json-file", plan("[1,3]"), "--throttle", "1000000")
	w.tool(reassign, "--execute", "--additional", "--reassignment-json-file", plan("[3,2]"), "--throttle", "2000000")
	w.Await("the throttle of the second", func() bool { return w.configs(3, kmsg.ConfigResourceTypeBroker, "3")[rate] == "2000000" })
	w.AwaitISR("t", 2, 3)
	w.says(w.tool(reassign, "--verify", "--reassignment-json-file", plan("[3,2]")), "Reassignment of partition t-0 is completed.")
	for id := range int32(3) {
		broker := strconv.Itoa(int(id + 1))
		w.Await("no throttles at "+broker, func() bool {
			return len(w.configs(id+1, kmsg.ConfigResourceTypeTopic, "t"))+len(w.configs(id+1, kmsg.ConfigResourceTypeBroker, broker)) == 0
		})
	}
}

// A move that cannot end is cancelled: replicas and in-sync set are as before.
func TestReassignmentCancelled(t *testing.T) {
	w := start(t, "klamm.fast.failure.detection=false", "broker.session.timeout.ms=20000")
	w.tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2")
	w.Produce("t", numbered("r", 20)...)
	w.Node(3).Kill()
	plan := w.file(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}`)
	w.tool(reassign, "--execute", "--reassignment-json-file", plan)
	// Without this the tool would go on to lift the throttles of a broker that is gone.
	w.says(w.tool(reassign, "--cancel", "--preserve-throttles", "--reassignment-json-file", plan), "Successfully cancelled partition reassignment")
	w.says(w.tool(reassign, "--list"), "No partition reassignments found.")
	w.AwaitISR("t", 1, 2)
}

// Leaderships that a failure has moved go back by request.
func TestPreferredElection(t *testing.T) {
	w := start(t)
	w.tool("TopicCommand", "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
	w.AwaitISR("t", 1, 2, 3)
	w.Node(1).Kill()
	w.AwaitISR("t", 2, 3)
	w.Node(1).Restart()
	w.AwaitISR("t", 1, 2, 3)
	if p := w.Partitions("t")[0]; p.Leader == 1 {
		t.Fatalf("partition 0 is led by 1 already: %+v", p)
	}
	w.says(w.tool(election, "--election-type", "preferred", "--topic", "t", "--partition", "0"),
		"Successfully completed leader election (PREFERRED) for partitions t-0")
	w.says(w.tool(election, "--election-type", "preferred", "--topic", "t", "--partition", "0"),
		"Valid replica already elected for partitions t-0")
	w.Await("the election at a broker", func() bool { return w.Partitions("t")[0].Leader == 1 })
}

// Leaderships go back by themselves, as auto.leader.rebalance.enable says.
func TestRebalance(t *testing.T) {
	w := start(t, "leader.imbalance.check.interval.seconds=1")
	w.Create("t", 6)
	w.AwaitISR("t", 1, 2, 3)
	before := w.leaders("t")
	w.Node(2).Kill()
	w.AwaitISR("t", 1, 3)
	w.Node(2).Restart()
	w.AwaitISR("t", 1, 2, 3)
	w.Await("leaders as before", func() bool { return slices.Equal(w.leaders("t"), before) })
}

// leaders are those of a topic's partitions.
func (w *world) leaders(topic string) []int32 {
	w.T.Helper()
	parts := w.Partitions(topic)
	out := make([]int32, len(parts))
	for _, p := range parts {
		out[p.Partition] = p.Leader
	}
	return out
}

// kcat writes to and reads from a topic whose leader dies meanwhile.
func TestKcatOverFailover(t *testing.T) {
	kcat := harness.Need(t, "kcat", "apt-get install kcat")
	w := start(t)
	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	produce := exec.Command(kcat, "-P", "-b", strings.Join(w.Bootstrap(), ","), "-t", "t", "-X", "acks=all", "-X", "linger.ms=0")
	in, err := produce.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	produce.Stderr = &said
	if err := produce.Start(); err != nil {
		t.Fatal(err)
	}
	victim := w.Leader("t")
	values := numbered("k", 200)
	for i, v := range values {
		if i == 100 {
			w.Node(victim).Kill()
		}
		if _, err := fmt.Fprintln(in, v); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // paces the input, so that some of it comes before, some after
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := produce.Wait(); err != nil {
		t.Fatalf("kcat: %v\n%s", err, said.String())
	}
	out, err := exec.Command(kcat, "-q", "-C", "-b", strings.Join(w.Bootstrap(), ","), "-t", "t", "-o", "beginning", "-e").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	for _, v := range values {
		if !slices.Contains(got, v) {
			t.Errorf("%s is missing", v)
		}
	}
}

// The first write to a new topic waits for no fetch that is under way elsewhere.
func TestFirstWriteToNewTopic(t *testing.T) {
	w := start(t)
	w.Create("old", 3)
	w.AwaitISR("old", 1, 2, 3)
	w.Produce("old", "a", "b", "c")
	var took []time.Duration
	for i := range 10 {
		topic := fmt.Sprint("new-", i)
		w.Create(topic, 1)
		w.AwaitISR(topic, 1, 2, 3)
		client := w.NewClient()
		if err := client.ProduceSync(w.Within(), &kgo.Record{Topic: "old", Value: []byte("warm")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := client.ProduceSync(w.Within(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	t.Logf("first acks=all write to a new topic: %s", summary(took))
}
