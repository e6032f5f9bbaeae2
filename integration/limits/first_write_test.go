//go:build integration

package limits

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol/batch"
)

// Topics of three replicas are created one after the other, and each gets a record
// with acks=all: its followers, which wait in fetches of the others, have to come.
func TestFirstWrite(t *testing.T) {
	const topics = 40
	w := startThree(t)
	w.awaitAll(0, 1, 2, 3)
	w.created(harness.AskAt[*kmsg.CreateTopicsResponse](w.World, 1, creation(3, 0, *partitions)))
	w.awaitAll(*partitions, 1, 2, 3)
	time.Sleep(time.Second) // the fetches of those are parked
	record := batchOf(t)
	var times []time.Duration
	for i := range topics {
		name := fmt.Sprint("first-", i)
		w.created(harness.AskAt[*kmsg.CreateTopicsResponse](w.World, 1, oneTopic(name, 3)))
		var of kmsg.MetadataResponseTopic
		w.Await("the topic", func() bool {
			of = harness.AskAt[*kmsg.MetadataResponse](w.World, 1, harness.MetadataRequest(name)).Topics[0]
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
		w.Await("an acknowledgement", func() bool {
			resp := harness.AskAt[*kmsg.ProduceResponse](w.World, of.Partitions[0].Leader, req)
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
