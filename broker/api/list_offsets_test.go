package api

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// listRequest asks for a timestamp in partition 0 of a topic.
func listRequest(version int16, topic string, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = timestamp
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// listed is what is answered: error, offset, timestamp, leader epoch.
func (w *dataWorld) listed(req *kmsg.ListOffsetsRequest) string {
	w.t.Helper()
	resp := w.ask(req).(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		w.t.Fatalf("answer %+v", resp)
	}
	p := &resp.Topics[0].Partitions[0]
	return fmt.Sprintf("%s %d %d %d", protocol.Error(p.ErrorCode), p.Offset, p.Timestamp, p.LeaderEpoch)
}

// timedBatch is a batch with records of these timestamps.
func timedBatch(codec batch.Codec, timestamps ...int64) []byte {
	b := batch.NewBuilder(batch.Options{Codec: codec})
	for _, ts := range timestamps {
		b.Append(batch.Record{Value: []byte("v"), Timestamp: ts})
	}
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return built
}

func TestListOffsets(t *testing.T) {
	w := newDataWorld(t)
	w.topic("empty", 1, 1)
	w.topic("t", 1, 1)
	for _, b := range [][]byte{
		timedBatch(batch.CodecNone, 1000, 1010, 1005), timedBatch(batch.CodecGzip, 2000, 2010), timedBatch(batch.CodecNone, 1500),
	} {
		w.ask(produceRequest(9, acksOne, "t", b))
	}
	const nothing, unsupported = "NONE -1 -1 -1", "UNSUPPORTED_VERSION -1 -1 -1"
	for _, tc := range []struct {
		version   int16
		topic     string
		timestamp int64
		want      string
	}{
		{1, "t", replica.LatestTimestamp, "NONE 6 -1 -1"},
		{3, "t", replica.EarliestTimestamp, "NONE 0 -1 -1"},
		{4, "t", replica.LatestTimestamp, "NONE 6 -1 0"},
		{11, "t", replica.EarliestTimestamp, "NONE 0 -1 0"},
		{11, "empty", replica.LatestTimestamp, "NONE 0 -1 0"},
		{11, "empty", replica.EarliestTimestamp, "NONE 0 -1 0"},
		{11, "empty", replica.MaxTimestamp, nothing},
		{11, "empty", 1, nothing},
		{7, "t", 0, "NONE 0 1000 0"},
		{7, "t", 1000, "NONE 0 1000 0"},
		{7, "t", 1001, "NONE 1 1010 0"},
		{7, "t", 1011, "NONE 3 2000 0"},
		{7, "t", 2005, "NONE 4 2010 0"},
		{1, "t", 2005, "NONE 4 2010 -1"},
		{7, "t", 2011, nothing},
		{7, "t", replica.MaxTimestamp, "NONE 4 2010 0"},
		{6, "t", replica.MaxTimestamp, unsupported},
		{8, "t", replica.EarliestLocal, "NONE 0 -1 0"},
		{7, "t", replica.EarliestLocal, unsupported},
		{9, "t", replica.LatestTiered, nothing},
		{8, "t", replica.LatestTiered, unsupported},
		{11, "t", replica.EarliestPendingUpload, nothing},
		{10, "t", replica.EarliestPendingUpload, unsupported},
		{11, "t", -7, unsupported},
		{7, "none", -1, "UNKNOWN_TOPIC_OR_PARTITION -1 -1 -1"},
	} {
		if got := w.listed(listRequest(tc.version, tc.topic, tc.timestamp)); got != tc.want {
			t.Errorf("version %d, %s at %d: %s, want %s", tc.version, tc.topic, tc.timestamp, got, tc.want)
		}
	}
}

func TestListOffsetsOfPartition(t *testing.T) {
	w := newDataWorld(t)
	id := w.topic("t", 1, 1, 1, 2)
	w.mustProduce("t", 5)
	follow(t, w.partition(id), 3)
	for _, tc := range []struct {
		name   string
		change func(*kmsg.ListOffsetsRequest, *kmsg.ListOffsetsRequestTopicPartition)
		want   string
	}{
		{"a consumer sees the high watermark", func(*kmsg.ListOffsetsRequest, *kmsg.ListOffsetsRequestTopicPartition) {}, "NONE 3 -1 0"},
		{"a committed one too", func(r *kmsg.ListOffsetsRequest, _ *kmsg.ListOffsetsRequestTopicPartition) { r.IsolationLevel = 1 }, "NONE 3 -1 0"},
		{"a replica sees the end", func(r *kmsg.ListOffsetsRequest, _ *kmsg.ListOffsetsRequestTopicPartition) { r.ReplicaID = 2 }, "NONE 5 -1 0"},
		{"a debugger too", func(r *kmsg.ListOffsetsRequest, _ *kmsg.ListOffsetsRequestTopicPartition) { r.ReplicaID = -2 }, "NONE 5 -1 0"},
		{"isolation of two", func(r *kmsg.ListOffsetsRequest, _ *kmsg.ListOffsetsRequestTopicPartition) { r.IsolationLevel = 2 }, "UNKNOWN_SERVER_ERROR -1 -1 -1"},
		{"right epoch", func(_ *kmsg.ListOffsetsRequest, p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = 0 }, "NONE 3 -1 0"},
		{"future epoch", func(_ *kmsg.ListOffsetsRequest, p *kmsg.ListOffsetsRequestTopicPartition) { p.CurrentLeaderEpoch = 3 }, "UNKNOWN_LEADER_EPOCH -1 -1 -1"},
		{"no such partition", func(_ *kmsg.ListOffsetsRequest, p *kmsg.ListOffsetsRequestTopicPartition) { p.Partition = 4 }, "UNKNOWN_TOPIC_OR_PARTITION -1 -1 -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := listRequest(7, "t", -1)
			tc.change(req, &req.Topics[0].Partitions[0])
			if got := w.listed(req); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	// A record above the high watermark is not found by its time.
	if got := w.listed(listRequest(7, "t", replica.MaxTimestamp)); got != "NONE -1 -1 -1" {
		t.Errorf("largest timestamp: %s", got)
	}
	twice := listRequest(7, "t", -1)
	again := twice.Topics[0].Partitions[0]
	again.Timestamp = -2
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, again)
	if got := w.listed(twice); got != "INVALID_REQUEST -1 -1 -1" {
		t.Errorf("listed twice: %s", got)
	}
	if resp := w.ask(&kmsg.ListOffsetsRequest{Version: 7}).(*kmsg.ListOffsetsResponse); len(resp.Topics) != 0 {
		t.Errorf("nothing asked: %+v", resp)
	}
}

// TestListOffsetsOfNewLeader: a leader that does not know yet what was committed
// sends nobody backwards (KIP-207).
func TestListOffsetsOfNewLeader(t *testing.T) {
	w := newDataWorld(t)
	id := w.topic("t", 1, 1, 1, 2)
	w.mustProduce("t", 5)
	follow(t, w.partition(id), 3)
	w.lead(id, 1) // a new epoch begins at 5, the high watermark is 3
	for version, want := range map[int16]string{4: "LEADER_NOT_AVAILABLE -1 -1 -1", 5: "OFFSET_NOT_AVAILABLE -1 -1 -1"} {
		if got := w.listed(listRequest(version, "t", -1)); got != want {
			t.Errorf("version %d: %s", version, got)
		}
	}
	if got := w.listed(listRequest(5, "t", -2)); got != "NONE 0 -1 0" {
		t.Errorf("earliest: %s", got)
	}
	follow(t, w.partition(id), 5)
	if got := w.listed(listRequest(5, "t", -1)); got != "NONE 5 -1 1" {
		t.Errorf("caught up: %s", got)
	}
	w.lead(id, 2)
	if got := w.listed(listRequest(5, "t", -1)); got != "NOT_LEADER_FOR_PARTITION -1 -1 -1" {
		t.Errorf("lost: %s", got)
	}
	debugger := listRequest(5, "t", -1)
	debugger.ReplicaID = -2
	if got := w.listed(debugger); got != "NONE 5 -1 2" {
		t.Errorf("lost, to a debugger: %s", got)
	}
}
