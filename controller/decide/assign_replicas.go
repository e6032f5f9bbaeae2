package decide

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/placement"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// assignReplicas returns the replicas of each partition: those that the request
// names, or placed ones.
func assignReplicas(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic, env Env) ([][]protocol.NodeID, error) {
	if len(topic.ReplicaAssignment) > 0 {
		return manualAssignment(img, topic)
	}
	if topic.ReplicationFactor < -1 || topic.ReplicationFactor == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if topic.NumPartitions < -1 || topic.NumPartitions == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidPartitions,
			"Number of partitions was set to an invalid non-positive value.")
	}
	partitions, factor := topic.NumPartitions, topic.ReplicationFactor
	if partitions == -1 {
		partitions = env.NumPartitions
	}
	if factor == -1 {
		factor = env.ReplicationFactor
	}
	placed, err := placement.Place(placeable(img), int(partitions), int(factor), env.Rand)
	if err != nil {
		return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): %s", factor, err)
	}
	for _, replicas := range placed {
		if len(living(img, replicas)) == 0 {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
				"Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor)
		}
	}
	return placed, nil
}

// placeable are the brokers that may get replicas: all that have a directory
// which is not cordoned.
func placeable(img *metadata.Image) []placement.Broker {
	var brokers []placement.Broker
	for b := range img.Brokers() {
		cordoned := len(b.LogDirs) > 0 && !slices.ContainsFunc(b.LogDirs, func(dir protocol.UUID) bool {
			return !slices.Contains(b.CordonedLogDirs, dir)
		})
		if cordoned {
			continue
		}
		p := placement.Broker{ID: b.ID, Fenced: b.Fenced || b.InControlledShutdown}
		if b.Rack != nil {
			p.Rack = *b.Rack
		}
		brokers = append(brokers, p)
	}
	return brokers
}

func manualAssignment(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic) ([][]protocol.NodeID, error) {
	if topic.ReplicationFactor != -1 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest,
			"A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if topic.NumPartitions != -1 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest,
			"A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	assigned := make(map[int32][]protocol.NodeID, len(topic.ReplicaAssignment))
	factor := 0
	for _, a := range topic.ReplicaAssignment {
		if _, ok := assigned[a.Partition]; ok {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"Found multiple manual partition assignments for partition %d", a.Partition)
		}
		replicas := make([]protocol.NodeID, len(a.Replicas))
		for i, id := range a.Replicas {
			replicas[i] = protocol.NodeID(id)
		}
		if err := checkAssignment(img, replicas, factor); err != nil {
			return nil, err
		}
		if len(living(img, replicas)) == 0 {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", a.Partition)
		}
		factor = len(replicas)
		assigned[a.Partition] = replicas
	}
	ordered := make([][]protocol.NodeID, len(assigned))
	for i := range ordered {
		replicas, ok := assigned[int32(i)]
		if !ok {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"partitions should be a consecutive 0-based integer sequence")
		}
		ordered[i] = replicas
	}
	return ordered, nil
}

// checkAssignment checks one partition's replicas; factor is how many the
// partitions before it have, 0 for the first.
func checkAssignment(img *metadata.Image, replicas []protocol.NodeID, factor int) error {
	if len(replicas) == 0 {
		return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if _, ok := img.Broker(id); !ok {
			return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if factor > 0 && len(replicas) != factor {
		return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), factor)
	}
	return nil
}
