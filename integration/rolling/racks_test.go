//go:build integration

package rolling

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// startRacks starts three nodes in racks a, b and c, whose leaders send consumers to
// the replica in theirs.
func startRacks(t *testing.T) *world {
	t.Helper()
	c := harness.ConfiguredCluster(t, "", 3, harness.WithMetrics, "auto.create.topics.enable=false", "min.insync.replicas=2",
		"replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector")
	for i, n := range c.Nodes {
		n.Configure("broker.rack=" + string(rune('a'+i)))
		n.Format()
	}
	c.Restart()
	return &world{World: harness.NewWorld(t, c)}
}

// Consumers of three kinds that say where they stand read from the follower there,
// from the leader while it is away, and from it again.
func TestReadsFromRack(t *testing.T) {
	w := startRacks(t)
	w.CreateOn("t", []int32{1, 2, 3}, []int32{1, 2, 3}, []int32{1, 2, 3})
	w.AwaitISR("t", 1, 2, 3)
	all := w.clients("t", []string{"client.rack=b"}, kgo.Rack("b"))
	load := w.load(all)
	load.moved("with all")
	from := func(id int32) float64 {
		all, _ := w.Node(id).Metrics()
		return all[`kafka_server_brokertopicmetrics_bytesout_total{topic="t"}`]
	}
	near := func() {
		t.Helper()
		load.mark()
		before := []float64{from(1), from(2), from(3)}
		load.moved("with all")
		if one, two, three := from(1)-before[0], from(2)-before[1], from(3)-before[2]; two == 0 || one+three > two/10 {
			t.Errorf("consumers in the rack of node 2 read %v bytes from node 1, %v from 2, %v from 3", one, two, three)
		}
	}
	if !kafka() {
		near()
	}
	w.Node(2).Stop()
	load.mark()
	load.moved("without node 2", "franz-go") // which waits for the node that it was sent to
	w.Node(2).Restart()
	w.AwaitISR("t", 1, 2, 3)
	if !kafka() {
		w.Await("consumers to come back to node 2", func() bool { return from(2) > 0 })
	}
	w.Node(1).Kill()
	load.mark()
	load.moved("without node 1")
	w.Node(1).Restart()
	w.AwaitISR("t", 1, 2, 3)
	load.end()
	w.whole("t", all)
}

func kafka() bool { return cmp.Or(os.Getenv("KLAMM_NODE"), "klamm") == "kafka" }

// A leader sends a consumer of v11 on that tells its rack to the follower there, who
// serves it; an older one it serves itself, and a follower does not (B032 of package
// faults). An epoch that is over is refused by both, and the answer names the leader
// (KIP-951).
func TestPreferredReadReplica(t *testing.T) {
	w := startRacks(t)
	w.CreateOn("t", []int32{1, 2, 3})
	w.AwaitISR("t", 1, 2, 3)
	w.Produce("t", "one", "two")
	w.Await("node 2 to know that all is committed", func() bool { return w.fetch(2, 12, 0, -1, "").HighWatermark == 2 })
	for _, tc := range []struct {
		at           int32
		version      int16
		offset       int64
		epoch        int32
		rack         string
		code         protocol.Error
		elsewhere    int32
		records      bool
		currentEpoch int32
	}{
		{1, 10, 0, -1, "", protocol.None, -1, true, -1},
		{1, 11, 0, -1, "", protocol.None, -1, true, -1},
		{1, 11, 0, -1, "a", protocol.None, -1, true, -1},
		{1, 11, 0, -1, "b", protocol.None, 2, false, -1},
		{1, 17, 0, 0, "c", protocol.None, 3, false, -1},
		{1, 17, 0, -1, "d", protocol.None, -1, true, -1},
		{1, 17, 2, -1, "b", protocol.None, 2, false, -1},
		{1, 17, 3, -1, "b", protocol.ErrOffsetOutOfRange, -1, false, -1},
		{1, 17, -1, -1, "b", protocol.ErrOffsetOutOfRange, -1, false, -1},
		{2, 10, 0, -1, "", protocol.ErrNotLeaderForPartition, -1, false, -1},
		{2, 11, 0, -1, "", protocol.None, -1, true, -1},
		{2, 17, 0, 0, "b", protocol.None, -1, true, -1},
		{2, 17, 2, 0, "c", protocol.None, -1, false, -1},
		{2, 17, 0, 7, "b", protocol.ErrUnknownLeaderEpoch, -1, false, -1},
	} {
		p := w.fetch(tc.at, tc.version, tc.offset, tc.epoch, tc.rack)
		if protocol.Error(p.ErrorCode) != tc.code || p.PreferredReadReplica != tc.elsewhere || (len(p.RecordBatches) > 0) != tc.records {
			t.Errorf("%+v: %v at %d, %d bytes", tc, protocol.Error(p.ErrorCode), p.PreferredReadReplica, len(p.RecordBatches))
		}
	}
	w.Node(1).Stop()
	w.AwaitISR("t", 2, 3)
	leader := w.Leader("t")
	for _, at := range []int32{2, 3} {
		if p := w.fetch(at, 17, 0, 0, "b"); protocol.Error(p.ErrorCode) != protocol.ErrFencedLeaderEpoch || p.CurrentLeader.LeaderID != leader {
			t.Errorf("a fetch of the last epoch at %d: %v, leader %d; %d leads", at, protocol.Error(p.ErrorCode), p.CurrentLeader.LeaderID, leader)
		}
	}
}

// fetch asks a broker for partition 0 of topic t, and does not wait for records.
func (w *world) fetch(at int32, version int16, offset int64, epoch int32, rack string) kmsg.FetchResponseTopicPartition {
	w.T.Helper()
	client := w.NewClient(kgo.SeedBrokers(w.Node(at).Address), kgo.MaxVersions(fetchVersion(version)))
	defer client.Close()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.Rack, req.SessionEpoch = 1<<20, 1, rack, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "t", w.described(at, harness.MetadataRequest("t")).TopicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = offset, epoch, 1<<20
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := client.Broker(int(at)).RetriableRequest(w.Within(), req)
	if err != nil {
		w.T.Fatal(fmt.Errorf("fetch v%d at %d: %w", version, at, err))
	}
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
}
