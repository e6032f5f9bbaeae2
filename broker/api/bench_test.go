package api

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// manyTopics is an image of one broker and that many topics of three partitions.
func manyTopics(t testing.TB, topics int) *metadata.Image {
	dir := protocol.UUID{7}
	records := []record.Record{&record.RegisterBroker{
		BrokerID: 1, BrokerEpoch: 1, LogDirs: []protocol.UUID{dir}, Endpoints: []record.Endpoint{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
	}}
	for i := range topics {
		id := protocol.UUID{1, byte(i >> 8), byte(i)}
		records = append(records, &record.Topic{Name: fmt.Sprintf("topic-%d", i), TopicID: id})
		for p := range int32(3) {
			records = append(records, &record.Partition{
				TopicID: id, PartitionID: p, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Leader: 1, Directories: []protocol.UUID{dir},
			})
		}
	}
	return imageOf(t, records...)
}

func metadataOf(img *metadata.Image, topics ...string) func() kmsg.Response {
	a := &Admin{NodeID: 1, ClusterID: "c", Image: imageFunc(img)}
	body := kmsg.NewPtrMetadataRequest()
	body.Version = 12
	if len(topics) > 0 {
		body.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, name := range topics {
		body.Topics = append(body.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	req := &server.Request{Key: 3, Version: 12, Body: body, Conn: &server.Conn{Listener: "PLAINTEXT"}}
	return func() kmsg.Response { return a.metadata(context.Background(), req).Response }
}

// BenchmarkMetadata is what a client asks for its topic, and what a tool asks
// for all of 1,000 topics of three partitions, encoded.
func BenchmarkMetadata(b *testing.B) {
	img := manyTopics(b, 1000)
	for name, ask := range map[string]func() kmsg.Response{
		"one": metadataOf(img, "topic-500"), "3000 partitions": metadataOf(img),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buf := ask().AppendTo(nil)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				buf = ask().AppendTo(buf[:0])
			}
		})
	}
}

// TestMetadataAllocations: an answer about all topics allocates in blocks, not
// for every partition.
func TestMetadataAllocations(t *testing.T) {
	for _, topics := range []int{1, 1000} {
		ask := metadataOf(manyTopics(t, topics))
		buf := ask().AppendTo(nil)
		n := testing.AllocsPerRun(20, func() { buf = ask().AppendTo(buf[:0]) })
		if most := 20 + float64(topics)/5; n > most {
			t.Errorf("%d topics of three partitions: %v allocations, want no more than %v", topics, n, most)
		}
	}
}

// BenchmarkGroups is what members of groups ask all the time, from a decoded
// request to the response, over the log: one member of one group, and a commit of
// three partitions.
func BenchmarkGroups(b *testing.B) {
	w, end := newGroupWorld(b)
	defer end()
	before := w.Image()
	w.topic(protocol.OffsetsTopic, 1, 1)
	id := worldTopicID(protocol.OffsetsTopic, 1)
	delta := metadata.NewDelta(before)
	for _, r := range []record.Record{
		&record.Topic{Name: protocol.OffsetsTopic, TopicID: id},
		&record.Partition{TopicID: id, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Leader: 1},
	} {
		if err := delta.Replay(r); err != nil {
			b.Fatal(err)
		}
	}
	w.shards.Apply(delta, w.Image())
	w.topic("t", 1, 3)

	conn := &server.Conn{Listener: "PLAINTEXT", RemoteAddr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}}
	do := func(body kmsg.Request) kmsg.Response {
		req := &server.Request{Key: body.Key(), Version: body.GetVersion(), Body: body, Received: time.Now(), ClientID: "c", Conn: conn}
		return complete(b.Context(), w.handlers[body.Key()](b.Context(), req)).Response
	}
	var joined *kmsg.JoinGroupResponse
	for deadline := time.Now().Add(10 * time.Second); joined == nil || joined.ErrorCode != 0; {
		if time.Now().After(deadline) {
			b.Fatalf("join: %+v", joined) // the shard does not load
		}
		joined = do(w.joinRequest(3, "")).(*kmsg.JoinGroupResponse)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 3, "g", joined.MemberID, joined.Generation
	if synced := do(sync).(*kmsg.SyncGroupResponse); synced.ErrorCode != 0 {
		b.Fatalf("sync: %+v", synced)
	}

	b.Run("heartbeat", func(b *testing.B) {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID, beat.Generation = 4, "g", joined.MemberID, joined.Generation
		b.ReportAllocs()
		for b.Loop() {
			if r := do(beat).(*kmsg.HeartbeatResponse); r.ErrorCode != 0 {
				b.Fatalf("%+v", r)
			}
		}
	})
	b.Run("commit", func(b *testing.B) {
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.MemberID, commit.Generation = 8, "g", joined.MemberID, joined.Generation
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = "t"
		for p := range int32(3) {
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Partition, partition.Offset = p, 1234
			topic.Partitions = append(topic.Partitions, partition)
		}
		commit.Topics = append(commit.Topics, topic)
		b.ReportAllocs()
		for b.Loop() {
			if r := do(commit).(*kmsg.OffsetCommitResponse); r.Topics[0].Partitions[2].ErrorCode != 0 {
				b.Fatalf("%+v", r)
			}
		}
	})
}
