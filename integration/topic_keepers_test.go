//go:build integration

package integration

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// topicKeeper creates a topic, writes to it, changes it and deletes it, over
// and over under one name.
type topicKeeper struct {
	keeping
	name  string
	state promise[topicState]
}

// topicState is what there is to know of the topic; zero where there is none.
type topicState struct {
	id         [16]byte
	partitions int
	retention  string // retention.ms where it is set
	start, end int64  // of partition 0
}

func (k *topicKeeper) step(ctx context.Context) error {
	wanted := k.state.acked
	switch choice := k.rnd.IntN(10); {
	case wanted.partitions == 0:
		return k.create(ctx)
	case choice == 0:
		k.state.ask(topicState{})
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 20_000
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &k.name
		req.Topics, req.TopicNames = append(req.Topics, topic), []string{k.name}
		resp, err := ask[*kmsg.DeleteTopicsResponse](ctx, k.asker, req)
		if err == nil {
			err = settled("deletion of "+k.name, resp.Topics[0].ErrorCode)
		}
		return k.done(err)
	case choice == 1 && wanted.partitions < 6:
		wanted.partitions++
		k.state.ask(wanted)
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = k.name, int32(wanted.partitions)
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, topic)
		resp, err := ask[*kmsg.CreatePartitionsResponse](ctx, k.asker, req)
		if err == nil {
			err = settled("partitions of "+k.name, resp.Topics[0].ErrorCode)
		}
		return k.done(err)
	case choice < 4:
		return k.alter(ctx)
	case choice == 4 && wanted.start < wanted.end:
		wanted.start += k.rnd.Int64N(wanted.end-wanted.start) + 1
		k.state.ask(wanted)
		return k.done(deleteRecords(ctx, k.asker, k.name, 0, wanted.start))
	default:
		wanted.end += 3
		k.state.ask(wanted)
		return k.done(produceThree(ctx, k.asker, k.name, 0))
	}
}

func (k *topicKeeper) done(err error) error {
	if err == nil {
		k.state.ack()
	}
	return err
}

func (k *topicKeeper) create(ctx context.Context) error {
	wanted := topicState{partitions: 1 + k.rnd.IntN(3), retention: strconv.Itoa(1_000_000 + k.rnd.IntN(1000))}
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = k.name, int32(wanted.partitions), 1
	setting := kmsg.NewCreateTopicsRequestTopicConfig()
	setting.Name, setting.Value = "retention.ms", &wanted.retention
	topic.Configs = append(topic.Configs, setting)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, topic)
	k.state.ask(wanted)
	resp, err := ask[*kmsg.CreateTopicsResponse](ctx, k.asker, req)
	if err == nil {
		err = settled("creation of "+k.name, resp.Topics[0].ErrorCode)
	}
	if err == nil {
		k.state.asked.id = resp.Topics[0].TopicID
	}
	return k.done(err)
}

func (k *topicKeeper) alter(ctx context.Context) error {
	wanted := k.state.acked
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op = "retention.ms", kmsg.IncrementalAlterConfigOpDelete
	wanted.retention = ""
	if k.rnd.IntN(4) > 0 {
		wanted.retention = strconv.Itoa(1_000_000 + k.rnd.IntN(1000))
		config.Op, config.Value = kmsg.IncrementalAlterConfigOpSet, &wanted.retention
	}
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, k.name, append(resource.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	k.state.ask(wanted)
	resp, err := ask[*kmsg.IncrementalAlterConfigsResponse](ctx, k.asker, req)
	if err == nil {
		err = settled("config of "+k.name, resp.Resources[0].ErrorCode)
	}
	return k.done(err)
}

func (k *topicKeeper) check(ctx context.Context) error {
	found, err := k.look(ctx)
	if err != nil {
		return err
	}
	if k.state.open && k.state.asked.id == ([16]byte{}) {
		k.state.asked.id = found.id // of a creation that was not answered
	}
	if err := k.state.saw(found); err != nil {
		return fmt.Errorf("%s %w", k.name, err)
	}
	return nil
}

func (k *topicKeeper) look(ctx context.Context) (found topicState, err error) {
	resp, err := ask[*kmsg.MetadataResponse](ctx, k.asker, harness.MetadataRequest(k.name))
	if err != nil {
		return found, err
	}
	if err := settled("metadata of "+k.name, resp.Topics[0].ErrorCode, protocol.ErrUnknownTopicOrPartition); err != nil {
		return found, err
	}
	if resp.Topics[0].ErrorCode != 0 {
		return found, nil
	}
	found.id, found.partitions = resp.Topics[0].TopicID, len(resp.Topics[0].Partitions)

	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, k.name, []string{"retention.ms"}
	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.Resources = append(describe.Resources, resource)
	described, err := ask[*kmsg.DescribeConfigsResponse](ctx, k.asker, describe)
	if err == nil {
		err = settled("config of "+k.name, described.Resources[0].ErrorCode)
	}
	if err != nil {
		return found, err
	}
	if config := described.Resources[0].Configs[0]; config.Source == kmsg.ConfigSourceDynamicTopicConfig {
		found.retention = *config.Value
	}
	found.start, found.end, err = askBounds(ctx, k.asker, k.name, 0)
	return found, err
}

// trimKeeper writes to a partition and deletes records of it.
type trimKeeper struct {
	keeping
	topic     string
	partition int32
	bounds    promise[[2]int64]
}

func (k *trimKeeper) step(ctx context.Context) error {
	wanted := k.bounds.acked
	if k.rnd.IntN(3) > 0 || wanted[0] == wanted[1] {
		wanted[1] += 3
		k.bounds.ask(wanted)
		return k.done(produceThree(ctx, k.asker, k.topic, k.partition))
	}
	wanted[0] += k.rnd.Int64N(wanted[1]-wanted[0]) + 1
	k.bounds.ask(wanted)
	return k.done(deleteRecords(ctx, k.asker, k.topic, k.partition, wanted[0]))
}

func (k *trimKeeper) done(err error) error {
	if err == nil {
		k.bounds.ack()
	}
	return err
}

func (k *trimKeeper) check(ctx context.Context) error {
	start, end, err := askBounds(ctx, k.asker, k.topic, k.partition)
	if err != nil {
		return err
	}
	if b := &k.bounds; b.open && start > b.acked[0] && start < b.asked[0] {
		b.asked[0] = start // a deletion that was under way: some segments have gone
	}
	if err := k.bounds.saw([2]int64{start, end}); err != nil {
		return fmt.Errorf("%s-%d %w", k.topic, k.partition, err)
	}
	return nil
}

// produceThree writes one batch of three records with acks=all.
func produceThree(ctx context.Context, a asker, topic string, partition int32) error {
	b := batch.NewBuilder(batch.Options{})
	for range 3 {
		b.Append(batch.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("three")})
	}
	data, err := b.Build()
	if err != nil {
		return err
	}
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, data
	produced := kmsg.NewProduceRequestTopic()
	produced.Topic, produced.Partitions = topic, append(produced.Partitions, part)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis, req.Topics = -1, 20_000, append(req.Topics, produced)
	resp, err := ask[*kmsg.ProduceResponse](ctx, a, req)
	if err != nil {
		return err
	}
	return settled("produce to "+topic, resp.Topics[0].Partitions[0].ErrorCode)
}

// deleteRecords trims a partition.
func deleteRecords(ctx context.Context, a asker, topic string, partition int32, to int64) error {
	trimmed := kmsg.NewDeleteRecordsRequestTopicPartition()
	trimmed.Partition, trimmed.Offset = partition, to
	asked := kmsg.NewDeleteRecordsRequestTopic()
	asked.Topic, asked.Partitions = topic, append(asked.Partitions, trimmed)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, asked)
	resp, err := ask[*kmsg.DeleteRecordsResponse](ctx, a, req)
	if err != nil {
		return err
	}
	p := resp.Topics[0].Partitions[0]
	if err := settled("DeleteRecords", p.ErrorCode); err != nil {
		return err
	}
	if p.LowWatermark != to {
		return fmt.Errorf("DeleteRecords(%d) says %d", to, p.LowWatermark)
	}
	return nil
}

// askBounds asks for the first and the next offset of a partition.
func askBounds(ctx context.Context, a asker, topic string, partition int32) (start, end int64, err error) {
	for timestamp, to := range map[int64]*int64{-2: &start, -1: &end} {
		asked := kmsg.NewListOffsetsRequestTopicPartition()
		asked.Partition, asked.Timestamp = partition, timestamp
		listed := kmsg.NewListOffsetsRequestTopic()
		listed.Topic, listed.Partitions = topic, append(listed.Partitions, asked)
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.Topics = -1, append(req.Topics, listed)
		resp, err := ask[*kmsg.ListOffsetsResponse](ctx, a, req)
		if err == nil {
			err = settled("ends of "+topic, resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			return 0, 0, err
		}
		*to = resp.Topics[0].Partitions[0].Offset
	}
	return start, end, nil
}

// bounds are the first and the next offset of a partition.
func bounds(t *testing.T, address, topic string, partition int32) (start, end int64) {
	t.Helper()
	start, end, err := askBounds(within(t, patience), newAsker(t, address), topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	return start, end
}
