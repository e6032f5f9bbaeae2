package api

import (
	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// hosted returns this broker's replica of a partition that is named.
// UNKNOWN_TOPIC_OR_PARTITION where the metadata has no such partition,
// NOT_LEADER_OR_FOLLOWER where it is on other brokers.
func hosted(img *metadata.Image, partitions partitionSource, tp protocol.TopicPartition) (*replica.Partition, error) {
	topic, ok := img.Topic(tp.Topic)
	if !ok {
		return nil, protocol.ErrUnknownTopicOrPartition
	}
	if _, ok := topic.Partition(tp.Partition); !ok {
		return nil, protocol.ErrUnknownTopicOrPartition
	}
	p, ok := partitions.Partition(topic.ID, tp.Partition)
	if !ok {
		return nil, protocol.ErrNotLeaderForPartition
	}
	return p, nil
}
