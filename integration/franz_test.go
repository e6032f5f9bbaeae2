//go:build integration

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// client is a franz-go client, closed with the test.
func client(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// createTopic makes a topic with one replica; settings are KEY, VALUE, ...
func createTopic(t *testing.T, address, name string, partitions int32, settings ...string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = settings[i], kmsg.StringPtr(settings[i+1])
		topic.Configs = append(topic.Configs, setting)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 20_000
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(within(t, 30*time.Second), client(t, address))
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// readAll consumes a partition from its start until n records are there, with
// their offsets, which must have no gaps.
func readAll(t *testing.T, address, topic string, partition int32, n int) []*kgo.Record {
	t.Helper()
	c := client(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	ctx := within(t, 2*time.Minute)
	var recs []*kgo.Record
	for len(recs) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records read from %s: %v", len(recs), n, topic, err)
		}
		recs = append(recs, fetches.Records()...)
	}
	for i, r := range recs {
		if r.Offset != int64(i) {
			t.Fatalf("record %d of %s has offset %d", i, topic, r.Offset)
		}
	}
	return recs
}

// endOffset is what ListOffsets says of a partition's end.
func endOffset(t *testing.T, address, topic string, partition int32) int64 {
	t.Helper()
	asked := kmsg.NewListOffsetsRequestTopicPartition()
	asked.Partition, asked.Timestamp = partition, -1
	askedTopic := kmsg.NewListOffsetsRequestTopic()
	askedTopic.Topic, askedTopic.Partitions = topic, append(askedTopic.Partitions, asked)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	request.Topics = append(request.Topics, askedTopic)
	response, err := request.RequestWith(within(t, 30*time.Second), client(t, address))
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("end of %s-%d: %v", topic, partition, err)
	}
	return response.Topics[0].Partitions[0].Offset
}

func fromFranz(recs []*kgo.Record) []rec {
	out := make([]rec, len(recs))
	for i, r := range recs {
		out[i] = rec{key: string(r.Key), value: string(r.Value)}
		for _, h := range r.Headers {
			if h.Key == "h" {
				out[i].header = string(h.Value)
			}
		}
	}
	return out
}

// produceAll writes records to partition 0 with an idempotent producer and
// waits for all of them.
func produceAll(t *testing.T, address, topic string, recs []rec, opts ...kgo.Opt) {
	t.Helper()
	c := client(t, address, append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(len(recs) + 1),
		kgo.StopProducerOnDataLossDetected(),
	}, opts...)...)
	defer c.Close()
	// The first error is enough; a promise that blocked would hold the client.
	failed := make(chan error, 1)
	for _, r := range recs {
		c.Produce(context.Background(), &kgo.Record{Key: []byte(r.key), Value: []byte(r.value), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(r.header)}}},
			func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
	}
	flushed := c.Flush(within(t, 2*time.Minute))
	select {
	case err := <-failed:
		t.Fatalf("produce to %s: %v", topic, errors.Join(err, flushed))
	default:
		if flushed != nil {
			t.Fatalf("produce to %s: %v", topic, flushed)
		}
	}
}

// TestFranzRoundTrip: 100,000 records with keys and headers in each codec, from
// an idempotent producer that pipelines, come back equal and in order.
func TestFranzRoundTrip(t *testing.T) {
	n := harness.Start(t)
	recs := make100k()
	for _, codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			topic := "franz-" + codec
			createTopic(t, n.Address, topic, 1)
			produceAll(t, n.Address, topic, recs, franzCodec(codec))
			same(t, fromFranz(readAll(t, n.Address, topic, 0, count)), recs)
			if end := endOffset(t, n.Address, topic, 0); end != count {
				t.Errorf("the log ends at %d", end)
			}
		})
	}
}

func franzCodec(name string) kgo.Opt {
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
	return kgo.ProducerBatchCompression(codec)
}
