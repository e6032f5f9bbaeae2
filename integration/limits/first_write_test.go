//go:build integration

package limits

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol/batch"
)

// Topics of three replicas are created one after the other, and each gets a record
// with acks=all: its followers, which wait in fetches of the others, have to come.
func TestFirstWrite(t *testing.T) {
	const topics = 40
	w := &world{t: t, Cluster: harness.StartCluster(t, 3, "auto.create.topics.enable=false")}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Bootstrap()...), kgo.RequestRetries(20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	w.client = client
	w.awaitAll(0, 1, 2, 3)
	w.created(ask[*kmsg.CreateTopicsResponse](w, 1, creation(3, 0, *partitions)))
	w.awaitAll(*partitions, 1, 2, 3)
	time.Sleep(time.Second) // the fetches of those are parked
	record := batchOf(t)
	var times []time.Duration
	for i := range topics {
		name := fmt.Sprint("first-", i)
		w.created(ask[*kmsg.CreateTopicsResponse](w, 1, oneTopic(name, 3)))
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		var of kmsg.MetadataResponseTopic
		w.await("the topic", func() bool {
			of = ask[*kmsg.MetadataResponse](w, 1, metadata).Topics[0]
			return of.ErrorCode == 0 && len(of.Partitions) == 1
		})
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 30_000
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic, topic.TopicID = name, of.TopicID
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Records = record
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		began := time.Now()
		w.await("an acknowledgement", func() bool {
			resp := ask[*kmsg.ProduceResponse](w, of.Partitions[0].Leader, req)
			return resp.Topics[0].Partitions[0].ErrorCode == 0
		})
		times = append(times, time.Since(began))
		time.Sleep(time.Duration(i*37%200) * time.Millisecond) // at another point of the fetches each time
	}
	slices.Sort(times)
	t.Logf("first acks=all write of a topic: median %v, 90 %% %v, max %v of %d", times[topics/2], times[topics*9/10], times[topics-1], topics)
}

// batchOf is a batch of one record.
func batchOf(t *testing.T) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.Options{})
	b.Append(batch.Record{Value: []byte("v")})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}
