package api

import (
	"context"
	"fmt"
	"testing"

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
