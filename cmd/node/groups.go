package node

import (
	"strconv"

	"github.com/klamm/klamm/broker"
	brokerapi "github.com/klamm/klamm/broker/api"
	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// newGroups makes the coordinator of groups; its Run belongs to the broker's
// background.
func (h *brokerHalf) newGroups() *coordinator.Coordinator {
	cfg := h.n.cfg.Groups
	machine := group.Config{
		InitialRebalanceDelay: cfg.InitialRebalanceDelay,
		MinSessionTimeout:     cfg.MinSessionTimeout,
		MaxSessionTimeout:     cfg.MaxSessionTimeout,
		MaxSize:               cfg.MaxSize,
		MaxMetadataBytes:      cfg.OffsetMetadataBytes,
		Retention:             cfg.OffsetsRetention,
		RetentionCheck:        cfg.OffsetsCheckInterval,
	}
	log := h.n.asked.With().Str("component", "group").Logger()
	return coordinator.New(coordinator.Config{
		Topic: protocol.OffsetsTopic,
		Node:  h.n.cfg.Node.ID,
		NewMachine: func(partition int32) coordinator.Machine {
			return group.NewMachine(machine, log.With().Int32("partition", partition).Logger())
		},
		Partition: func(topicID protocol.UUID, partition int32) (coordinator.Partition, bool) {
			p, ok := h.replicas.Partition(topicID, partition)
			return p, ok
		},
		CommitTimeout: cfg.CommitTimeout,
		LoadBytes:     cfg.LoadBytes,
	}, h.n.asked)
}

// internalTopics says how the topics of coordinators are created.
func (h *brokerHalf) internalTopics(create *brokerapi.AutoCreate) {
	cfg := h.n.cfg.Groups
	create.Internal(protocol.OffsetsTopic, brokerapi.InternalTopic{
		Partitions: cfg.OffsetsPartitions,
		Replicas:   cfg.OffsetsReplicas,
		Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    strconv.Itoa(int(cfg.OffsetsSegmentBytes)),
		},
	})
}

// applyGroups lets the coordinators follow the metadata, once the replicas have.
func (h *brokerHalf) applyGroups(delta *cluster.Delta, img *cluster.Image) {
	h.groups.Apply(delta, img)
	deleted := make(map[string]protocol.UUID)
	for topic := range delta.ChangedTopics() {
		if topic.New == nil {
			deleted[topic.Name] = topic.ID
		}
	}
	if len(deleted) > 0 {
		h.groups.Tell(group.TopicsDeleted{Topics: deleted})
	}
}

// serveGroups adds the coordinators to what the broker's listeners serve.
func (h *brokerHalf) serveGroups(cfg *broker.APIConfig) {
	cfg.InternalTopics = h.autoCreate
	if !h.n.cfg.Topics.AutoCreate {
		cfg.AutoCreate = nil
	}
	cfg.Groups = brokerapi.NewGroups(h.broker, h.groups, h.n.asked).APIs()
}
