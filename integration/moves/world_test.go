//go:build integration

package moves

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// world is three combined nodes and a client.
type world struct{ *harness.World }

func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false"}, settings...)
	return &world{harness.NewWorld(t, harness.StartCluster(t, 3, settings...))}
}

// set sets configs, "KEY=VALUE", or removes them, "KEY". A broker's are asked of
// itself, as Kafka wants it.
func (w *world) set(kind kmsg.ConfigResourceType, resource string, settings ...string) {
	w.T.Helper()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	for _, setting := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, ok := strings.Cut(setting, "=")
		if c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete; ok {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpSet, &value
		}
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	var resp *kmsg.IncrementalAlterConfigsResponse
	if id, err := strconv.Atoi(resource); kind == kmsg.ConfigResourceTypeBroker && err == nil {
		resp = harness.AskAt[*kmsg.IncrementalAlterConfigsResponse](w.World, int32(id), req)
	} else {
		resp = harness.Ask[*kmsg.IncrementalAlterConfigsResponse](w.World, req)
	}
	if code := protocol.Error(resp.Resources[0].ErrorCode); code != protocol.None {
		w.T.Fatalf("set %v of %q: %v", settings, resource, code)
	}
}

func (w *world) setTopic(topic string, settings ...string) {
	w.T.Helper()
	w.set(kmsg.ConfigResourceTypeTopic, topic, settings...)
}

func (w *world) setBroker(id string, settings ...string) {
	w.T.Helper()
	w.set(kmsg.ConfigResourceTypeBroker, id, settings...)
}

// moving tells whether a partition is on its way.
func (w *world) moving() bool {
	w.T.Helper()
	resp := harness.Ask[*kmsg.ListPartitionReassignmentsResponse](w.World, kmsg.NewPtrListPartitionReassignmentsRequest())
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		w.T.Fatal(code)
	}
	return len(resp.Topics) > 0
}

// large writes records of 64 KiB.
func (w *world) large(topic string, count int) {
	w.T.Helper()
	value := bytes.Repeat([]byte("klamm "), 64<<10/6)
	var records []*kgo.Record
	for range count {
		records = append(records, &kgo.Record{Topic: topic, Value: value})
	}
	client := w.NewClient(kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	if err := client.ProduceSync(w.Within(), records...).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
}

// status is what klamm says of the moves.
func (w *world) status() string {
	w.T.Helper()
	return harness.MustRun(w.T, "reassign", "status", "--bootstrap-server", strings.Join(w.Bootstrap(), ","))
}

func (w *world) says(out string, lines ...string) {
	w.T.Helper()
	for _, line := range lines {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			w.T.Errorf("no %q in:\n%s", line, out)
		}
	}
}

// alive are the brokers that the metadata has.
func (w *world) alive() (ids []int32) {
	w.T.Helper()
	for _, b := range harness.Ask[*kmsg.MetadataResponse](w.World, harness.MetadataRequest("t")).Brokers {
		ids = append(ids, b.NodeID)
	}
	return ids
}
