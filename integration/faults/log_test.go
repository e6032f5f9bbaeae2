//go:build integration

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// What most tests do with a topic of one partition.

const (
	earliest = -2
	latest   = -1
)

// unique is a name that nothing else has, on a node that has seen this test
// before.
func unique(t *testing.T, name string) string {
	id, _, _ := strings.Cut(t.Name(), "/")
	return fmt.Sprintf("%s-%s-%06x", id, name, rand.Uint32N(1<<24))
}

// createTopic makes a topic of one partition and waits until its leader serves.
// Settings are KEY, VALUE, ...
func createTopic(c *conn, settings ...string) string {
	c.t.Helper()
	name := unique(c.t, "topic")
	wantCode(c.t, "creation of "+name, tryCreateTopic(c, name, settings...).ErrorCode, protocol.None)
	eventually(c.t, name+" is led", func() bool { return listOffset(c, name, latest).ErrorCode == 0 })
	return name
}

func newTopic(name string, settings ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for i := 0; i < len(settings); i += 2 {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = settings[i], kmsg.StringPtr(settings[i+1])
		topic.Configs = append(topic.Configs, setting)
	}
	return topic
}

func tryCreateTopic(c *conn, name string, settings ...string) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	return askCreateTopic(c, newTopic(name, settings...), false)
}

func askCreateTopic(c *conn, topic kmsg.CreateTopicsRequestTopic, validateOnly bool) kmsg.CreateTopicsResponseTopic {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(patience.Milliseconds()), validateOnly
	req.Topics = append(req.Topics, topic)
	return ask[*kmsg.CreateTopicsResponse](c, 7, req).Topics[0]
}

func deleteTopic(c *conn, name string) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	wantCode(c.t, "deletion of "+name, ask[*kmsg.DeleteTopicsResponse](c, 6, req).Topics[0].ErrorCode, protocol.None)
}

func metadata(c *conn, name string) kmsg.MetadataResponseTopic {
	c.t.Helper()
	return ask[*kmsg.MetadataResponse](c, 12, harness.MetadataRequest(name)).Topics[0]
}

// wantAbsent checks that no topic has the name.
func wantAbsent(c *conn, name string) {
	c.t.Helper()
	wantCode(c.t, "metadata of "+name, metadata(c, name).ErrorCode, protocol.ErrUnknownTopicOrPartition)
}

// now is what records are stamped with unless a test says otherwise.
func now() int64 { return time.Now().UnixMilli() }

// records is a batch of records with the given values.
func records(opts batch.Options, values ...string) []byte {
	b := batch.NewBuilder(opts)
	for _, value := range values {
		b.Append(batch.Record{Timestamp: now(), Key: []byte("k"), Value: []byte(value)})
	}
	return build(b)
}

// numbered is a batch of count records of an idempotent producer.
func numbered(producer kmsg.InitProducerIDResponse, sequence int32, count int) []byte {
	values := make([]string, count)
	return records(batch.Options{Producer: &batch.Producer{
		ID: producer.ProducerID, Epoch: producer.ProducerEpoch, BaseSequence: sequence,
	}}, values...)
}

func build(b *batch.Builder) []byte {
	built, err := b.Build()
	if err != nil {
		panic(err)
	}
	return built
}

func initProducer(c *conn) kmsg.InitProducerIDResponse {
	c.t.Helper()
	var resp *kmsg.InitProducerIDResponse
	eventually(c.t, "a producer id is given out", func() bool {
		resp = ask[*kmsg.InitProducerIDResponse](c, 4, kmsg.NewPtrInitProducerIDRequest())
		return resp.ErrorCode != int16(protocol.ErrCoordinatorLoadInProgress)
	})
	wantCode(c.t, "InitProducerId", resp.ErrorCode, protocol.None)
	return *resp
}

func produceRequest(topic string, data []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(patience.Milliseconds())
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = data
	produced := kmsg.NewProduceRequestTopic()
	produced.Topic, produced.Partitions = topic, append(produced.Partitions, partition)
	req.Topics = append(req.Topics, produced)
	return req
}

// produce writes with acks=all.
func produce(c *conn, topic string, data []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.ProduceResponse](c, 9, produceRequest(topic, data)).Topics[0].Partitions[0]
}

// mustProduce writes records, one batch for each.
func mustProduce(c *conn, topic string, values ...string) {
	c.t.Helper()
	for _, value := range values {
		wantCode(c.t, "produce", produce(c, topic, records(batch.Options{}, value)).ErrorCode, protocol.None)
	}
}

// ten are the values of ten records.
var ten = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// listOffset looks an offset up by time.
func listOffset(c *conn, topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = timestamp
	listed := kmsg.NewListOffsetsRequestTopic()
	listed.Topic, listed.Partitions = topic, append(listed.Partitions, partition)
	req.Topics = append(req.Topics, listed)
	return ask[*kmsg.ListOffsetsResponse](c, 7, req).Topics[0].Partitions[0]
}

// wantOffsets compares the ends of the log.
func wantOffsets(c *conn, topic string, first, end int64) {
	c.t.Helper()
	gotFirst, gotEnd := listOffset(c, topic, earliest), listOffset(c, topic, latest)
	wantCode(c.t, "earliest", gotFirst.ErrorCode, protocol.None)
	wantCode(c.t, "latest", gotEnd.ErrorCode, protocol.None)
	if gotFirst.Offset != first || gotEnd.Offset != end {
		c.t.Errorf("the log has offsets [%d, %d), want [%d, %d)", gotFirst.Offset, gotEnd.Offset, first, end)
	}
}

func fetchPartition(offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	return p
}

func fetchRequest(topic string, partitions ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 1 << 20
	if len(partitions) > 0 {
		fetched := kmsg.NewFetchRequestTopic()
		fetched.Topic, fetched.Partitions = topic, partitions
		req.Topics = append(req.Topics, fetched)
	}
	return req
}

// fetch reads from an offset.
func fetch(c *conn, topic string, p kmsg.FetchRequestTopicPartition) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.FetchResponse](c, 12, fetchRequest(topic, p)).Topics[0].Partitions[0]
}

// offsetsOf are the offsets of the records that were fetched.
func offsetsOf(t *testing.T, data []byte) []int64 {
	t.Helper()
	var offsets []int64
	for len(data) > 0 {
		b, rest, err := batch.Next(data)
		if errors.Is(err, batch.ErrIncomplete) && len(offsets) > 0 {
			break // where the limit of the fetch was
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Each(func(r batch.Record) error {
			offsets = append(offsets, b.BaseOffset()+int64(r.OffsetDelta))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		data = rest
	}
	return offsets
}
