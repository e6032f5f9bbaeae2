//go:build integration

package moving

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// world is three combined nodes and a client.
type world struct {
	*harness.World
	topics int // created so far
	mu     sync.Mutex
}

// start starts nodes whose topics need two replicas in sync.
func start(t *testing.T, settings ...string) *world {
	t.Helper()
	settings = append([]string{"auto.create.topics.enable=false", "min.insync.replicas=2"}, settings...)
	return &world{World: harness.NewWorld(t, harness.StartCluster(t, 3, settings...))}
}

// end is the number of records of a topic that has lost none from its start.
func (w *world) end(topic string) (records int64) {
	w.T.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, known := range w.Partitions(topic) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = known.Partition, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	for _, p := range harness.Ask[*kmsg.ListOffsetsResponse](w.World, req).Topics[0].Partitions {
		if p.ErrorCode != 0 {
			w.T.Fatalf("the end of %s-%d: %v", topic, p.Partition, protocol.Error(p.ErrorCode))
		}
		records += p.Offset
	}
	return records
}

// fetchVersion has a client fetch by one version.
func fetchVersion(version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Fetch), version)
	return v
}
