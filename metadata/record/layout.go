package record

import (
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

func node(v visitor, name string, p *protocol.NodeID) { v.int32(name, (*int32)(p)) }

func brokerEpoch(v visitor, name string, p *protocol.BrokerEpoch) { v.int64(name, (*int64)(p)) }

func endpoints(v visitor, p *[]Endpoint) {
	list(v, "endPoints", p, func(e *Endpoint) {
		v.string("name", &e.Name)
		v.string("host", &e.Host)
		v.uint16("port", &e.Port)
		v.int16("securityProtocol", &e.SecurityProtocol)
		v.end()
	})
}

func features(v visitor, p *[]FeatureRange) {
	list(v, "features", p, func(f *FeatureRange) {
		v.string("name", &f.Name)
		v.int16("minSupportedVersion", &f.Min)
		v.int16("maxSupportedVersion", &f.Max)
		v.end()
	})
}

// ID of RegisterBrokerRecord.
func (r *RegisterBroker) ID() int16 { return 0 }

// version is the newest that metadata.version allows, as in Kafka.
func (r *RegisterBroker) version(level feature.Level) int16 {
	switch {
	case level.HasCordonedDirs():
		return 4
	case level.HasDirectories():
		return 3
	case level.HasMigratingBrokers():
		return 2
	}
	return 1
}

func (r *RegisterBroker) walk(v visitor, version int16) {
	node(v, "brokerId", &r.BrokerID)
	if version >= 2 {
		v.bool("isMigratingZkBroker", &r.IsMigratingZKBroker)
	}
	v.uuid("incarnationId", &r.IncarnationID)
	brokerEpoch(v, "brokerEpoch", &r.BrokerEpoch)
	endpoints(v, &r.Endpoints)
	features(v, &r.Features)
	v.nullableString("rack", &r.Rack)
	v.bool("fenced", &r.Fenced)
	if version >= 1 {
		v.bool("inControlledShutdown", &r.InControlledShutdown)
	}
	if version >= 3 {
		v.tag(0, len(r.LogDirs) > 0, func() { v.uuids("logDirs", &r.LogDirs) })
	}
	if version >= 4 {
		v.tag(1, r.CordonedLogDirs != nil, func() { v.uuids("cordonedLogDirs", &r.CordonedLogDirs) })
	}
	r.end(v)
}

// ID of UnregisterBrokerRecord.
func (r *UnregisterBroker) ID() int16 { return 1 }

func (r *UnregisterBroker) version(feature.Level) int16 { return 0 }

func (r *UnregisterBroker) walk(v visitor, _ int16) {
	node(v, "brokerId", &r.BrokerID)
	brokerEpoch(v, "brokerEpoch", &r.BrokerEpoch)
	r.end(v)
}

// ID of TopicRecord.
func (r *Topic) ID() int16 { return 2 }

func (r *Topic) version(feature.Level) int16 { return 0 }

func (r *Topic) walk(v visitor, _ int16) {
	v.string("name", &r.Name)
	v.uuid("topicId", &r.TopicID)
	r.end(v)
}

// ID of PartitionRecord.
func (r *Partition) ID() int16 { return 3 }

func (r *Partition) version(level feature.Level) int16 { return partitionVersion(level) }

// partitionVersion is that of both records of partitions: the newest, as for
// RegisterBroker.
func partitionVersion(level feature.Level) int16 {
	switch {
	case level.HasELR():
		return 2
	case level.HasDirectories():
		return 1
	}
	return 0
}

func (r *Partition) walk(v visitor, version int16) {
	v.int32("partitionId", &r.PartitionID)
	v.uuid("topicId", &r.TopicID)
	v.nodes("replicas", &r.Replicas)
	v.nodes("isr", &r.ISR)
	v.nodes("removingReplicas", &r.RemovingReplicas)
	v.nodes("addingReplicas", &r.AddingReplicas)
	node(v, "leader", &r.Leader)
	v.tag(0, r.LeaderRecovery != 0, func() { v.int8("leaderRecoveryState", &r.LeaderRecovery) })
	v.int32("leaderEpoch", (*int32)(&r.LeaderEpoch))
	v.int32("partitionEpoch", (*int32)(&r.PartitionEpoch))
	if version >= 1 {
		v.uuids("directories", &r.Directories)
	}
	if version >= 2 {
		v.tag(1, r.ELR != nil, func() { v.nodes("eligibleLeaderReplicas", &r.ELR) })
		v.tag(2, r.LastKnownELR != nil, func() { v.nodes("lastKnownElr", &r.LastKnownELR) })
	}
	r.end(v)
}

// ID of ConfigRecord.
func (r *Config) ID() int16 { return 4 }

func (r *Config) version(feature.Level) int16 { return 0 }

func (r *Config) walk(v visitor, _ int16) {
	v.int8("resourceType", &r.ResourceType)
	v.string("resourceName", &r.ResourceName)
	v.string("name", &r.Name)
	v.nullableString("value", &r.Value)
	r.end(v)
}

// ID of PartitionChangeRecord.
func (r *PartitionChange) ID() int16 { return 5 }

func (r *PartitionChange) version(level feature.Level) int16 { return partitionVersion(level) }

func (r *PartitionChange) walk(v visitor, version int16) {
	v.int32("partitionId", &r.PartitionID)
	v.uuid("topicId", &r.TopicID)
	v.tag(0, r.ISR != nil, func() { v.nodes("isr", &r.ISR) })
	v.tag(1, r.Leader != LeaderUnchanged, func() { node(v, "leader", &r.Leader) })
	v.tag(2, r.Replicas != nil, func() { v.nodes("replicas", &r.Replicas) })
	v.tag(3, r.RemovingReplicas != nil, func() { v.nodes("removingReplicas", &r.RemovingReplicas) })
	v.tag(4, r.AddingReplicas != nil, func() { v.nodes("addingReplicas", &r.AddingReplicas) })
	v.tag(5, r.LeaderRecovery != RecoveryUnchanged, func() { v.int8("leaderRecoveryState", &r.LeaderRecovery) })
	if version >= 1 {
		v.tag(8, r.Directories != nil, func() { v.uuids("directories", &r.Directories) })
	}
	if version >= 2 {
		v.tag(6, r.ELR != nil, func() { v.nodes("eligibleLeaderReplicas", &r.ELR) })
		v.tag(7, r.LastKnownELR != nil, func() { v.nodes("lastKnownElr", &r.LastKnownELR) })
	}
	r.end(v)
}

// ID of FenceBrokerRecord.
func (r *FenceBroker) ID() int16 { return 7 }

func (r *FenceBroker) version(feature.Level) int16 { return 0 }

func (r *FenceBroker) walk(v visitor, _ int16) {
	node(v, "id", &r.BrokerID)
	brokerEpoch(v, "epoch", &r.Epoch)
	v.end()
}

// ID of UnfenceBrokerRecord.
func (r *UnfenceBroker) ID() int16 { return 8 }

func (r *UnfenceBroker) version(feature.Level) int16 { return 0 }

func (r *UnfenceBroker) walk(v visitor, _ int16) {
	node(v, "id", &r.BrokerID)
	brokerEpoch(v, "epoch", &r.Epoch)
	v.end()
}

// ID of RemoveTopicRecord.
func (r *RemoveTopic) ID() int16 { return 9 }

func (r *RemoveTopic) version(feature.Level) int16 { return 0 }

func (r *RemoveTopic) walk(v visitor, _ int16) {
	v.uuid("topicId", &r.TopicID)
	r.end(v)
}

// ID of FeatureLevelRecord.
func (r *FeatureLevel) ID() int16 { return 12 }

// version stays 0 for good: it is the first record of every log and snapshot.
func (r *FeatureLevel) version(feature.Level) int16 { return 0 }

func (r *FeatureLevel) walk(v visitor, _ int16) {
	v.string("name", &r.Name)
	v.int16("featureLevel", &r.Level)
	r.end(v)
}

// ID of ProducerIdsRecord.
func (r *ProducerIDs) ID() int16 { return 15 }

func (r *ProducerIDs) version(feature.Level) int16 { return 0 }

func (r *ProducerIDs) walk(v visitor, _ int16) {
	node(v, "brokerId", &r.BrokerID)
	brokerEpoch(v, "brokerEpoch", &r.BrokerEpoch)
	v.int64("nextProducerId", &r.NextProducerID)
	v.end()
}

// ID of BrokerRegistrationChangeRecord.
func (r *BrokerRegistrationChange) ID() int16 { return 17 }

func (r *BrokerRegistrationChange) version(level feature.Level) int16 {
	switch {
	case r.CordonedLogDirs != nil && level.HasCordonedDirs():
		return 3
	case len(r.LogDirs) > 0 && level.HasDirectories():
		return 2
	case r.InControlledShutdown != 0:
		return 1
	}
	return 0
}

func (r *BrokerRegistrationChange) walk(v visitor, version int16) {
	node(v, "brokerId", &r.BrokerID)
	brokerEpoch(v, "brokerEpoch", &r.BrokerEpoch)
	v.tag(0, r.Fenced != 0, func() { v.int8("fenced", &r.Fenced) })
	if version >= 1 {
		v.tag(1, r.InControlledShutdown != 0, func() { v.int8("inControlledShutdown", &r.InControlledShutdown) })
	}
	if version >= 2 {
		v.tag(2, len(r.LogDirs) > 0, func() { v.uuids("logDirs", &r.LogDirs) })
	}
	if version >= 3 {
		v.tag(3, r.CordonedLogDirs != nil, func() { v.uuids("cordonedLogDirs", &r.CordonedLogDirs) })
	}
	r.end(v)
}

// ID of NoOpRecord.
func (r *NoOp) ID() int16 { return 20 }

func (r *NoOp) version(feature.Level) int16 { return 0 }

func (r *NoOp) walk(v visitor, _ int16) { v.end() }

// ID of ZkMigrationStateRecord.
func (r *ZKMigrationState) ID() int16 { return 21 }

func (r *ZKMigrationState) version(feature.Level) int16 { return 0 }

func (r *ZKMigrationState) walk(v visitor, _ int16) {
	v.int8("zkMigrationState", &r.State)
	v.end()
}

// ID of BeginTransactionRecord.
func (r *BeginTransaction) ID() int16 { return 23 }

func (r *BeginTransaction) version(feature.Level) int16 { return 0 }

func (r *BeginTransaction) walk(v visitor, _ int16) {
	v.tag(0, r.Name != nil, func() { v.nullableString("name", &r.Name) })
	v.end()
}

// ID of EndTransactionRecord.
func (r *EndTransaction) ID() int16 { return 24 }

func (r *EndTransaction) version(feature.Level) int16 { return 0 }

func (r *EndTransaction) walk(v visitor, _ int16) { v.end() }

// ID of AbortTransactionRecord.
func (r *AbortTransaction) ID() int16 { return 25 }

func (r *AbortTransaction) version(feature.Level) int16 { return 0 }

func (r *AbortTransaction) walk(v visitor, _ int16) {
	v.tag(0, r.Reason != nil, func() { v.nullableString("reason", &r.Reason) })
	v.end()
}

// ID of RegisterControllerRecord.
func (r *RegisterController) ID() int16 { return 27 }

func (r *RegisterController) version(feature.Level) int16 { return 0 }

func (r *RegisterController) walk(v visitor, _ int16) {
	node(v, "controllerId", &r.ControllerID)
	v.uuid("incarnationId", &r.IncarnationID)
	v.bool("zkMigrationReady", &r.ZKMigrationReady)
	endpoints(v, &r.Endpoints)
	features(v, &r.Features)
	r.end(v)
}

// ID of ClearElrRecord.
func (r *ClearELR) ID() int16 { return 28 }

func (r *ClearELR) version(feature.Level) int16 { return 0 }

func (r *ClearELR) walk(v visitor, _ int16) {
	v.string("topicName", &r.TopicName)
	r.end(v)
}

// ID of UnregisterControllerRecord.
func (r *UnregisterController) ID() int16 { return 29 }

func (r *UnregisterController) version(feature.Level) int16 { return 0 }

func (r *UnregisterController) walk(v visitor, _ int16) {
	node(v, "controllerId", &r.ControllerID)
	r.end(v)
}
