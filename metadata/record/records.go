package record

import (
	"net"
	"strconv"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

// Record is one metadata record: a pointer to one of the structs below.
type Record interface {
	// ID is the record's id in the frame.
	ID() int16
	// version is the one that is written at a level of metadata.version: the
	// lowest that holds the fields that are set, with the exceptions that Kafka
	// makes. Fields that the level does not know are left out.
	version(level feature.Level) int16
	// walk visits the record's fields in the order of Kafka's schema.
	walk(v visitor, version int16)
}

// Endpoint is a listener as a broker or controller registers it.
type Endpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// Address is the endpoint's HOST:PORT.
func (e Endpoint) Address() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// FeatureRange is the span of levels of a feature that a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// RegisterBroker says that a broker (re)registered. It is written fenced.
type RegisterBroker struct {
	Caused
	BrokerID             protocol.NodeID
	IsMigratingZKBroker  bool
	IncarnationID        protocol.UUID
	BrokerEpoch          protocol.BrokerEpoch
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []protocol.UUID
	CordonedLogDirs      []protocol.UUID // nil = null
}

// UnregisterBroker removes a broker's registration.
type UnregisterBroker struct {
	Caused
	BrokerID    protocol.NodeID
	BrokerEpoch protocol.BrokerEpoch
}

// Topic creates a topic; its Partition records follow in the same batch.
type Topic struct {
	Caused
	Name    string
	TopicID protocol.UUID
}

// Partition is the full state of one partition.
type Partition struct {
	Caused
	PartitionID      int32
	TopicID          protocol.UUID
	Replicas         []protocol.NodeID
	ISR              []protocol.NodeID
	RemovingReplicas []protocol.NodeID
	AddingReplicas   []protocol.NodeID
	Leader           protocol.NodeID
	LeaderRecovery   int8
	LeaderEpoch      protocol.LeaderEpoch
	PartitionEpoch   protocol.PartitionEpoch
	Directories      []protocol.UUID
	ELR              []protocol.NodeID // nil = null
	LastKnownELR     []protocol.NodeID // nil = null
}

// Config sets one config of a resource; a nil Value deletes it.
type Config struct {
	Caused
	ResourceType int8
	ResourceName string
	Name         string
	Value        *string
}

// LeaderUnchanged is PartitionChange.Leader where the leader stays as it is.
const LeaderUnchanged protocol.NodeID = -2

// RecoveryUnchanged is PartitionChange.LeaderRecovery where it stays as it is.
const RecoveryUnchanged int8 = -1

// PartitionChange is a delta of one partition; nil fields stay as they are.
// Replaying one adds 1 to the partition epoch, and 1 to the leader epoch where
// Leader is not LeaderUnchanged. NewPartitionChange sets the neutral values.
type PartitionChange struct {
	Caused
	PartitionID      int32
	TopicID          protocol.UUID
	ISR              []protocol.NodeID
	Leader           protocol.NodeID
	Replicas         []protocol.NodeID
	RemovingReplicas []protocol.NodeID
	AddingReplicas   []protocol.NodeID
	LeaderRecovery   int8
	ELR              []protocol.NodeID
	LastKnownELR     []protocol.NodeID
	Directories      []protocol.UUID
}

// NewPartitionChange returns a change of nothing.
func NewPartitionChange(topic protocol.UUID, partition int32) *PartitionChange {
	return &PartitionChange{
		TopicID: topic, PartitionID: partition,
		Leader: LeaderUnchanged, LeaderRecovery: RecoveryUnchanged,
	}
}

// FenceBroker is the fence of old metadata versions.
type FenceBroker struct {
	BrokerID protocol.NodeID
	Epoch    protocol.BrokerEpoch
}

// UnfenceBroker is the unfence of old metadata versions.
type UnfenceBroker struct {
	BrokerID protocol.NodeID
	Epoch    protocol.BrokerEpoch
}

// RemoveTopic deletes a topic, its partitions and its configs.
type RemoveTopic struct {
	Caused
	TopicID protocol.UUID
}

// FeatureLevel finalizes a level of a feature.
type FeatureLevel struct {
	Caused
	Name  string
	Level int16
}

// ProducerIDs says that a block of producer ids was handed to a broker.
type ProducerIDs struct {
	BrokerID       protocol.NodeID
	BrokerEpoch    protocol.BrokerEpoch
	NextProducerID int64 // first id after the block
}

// BrokerRegistrationChange changes a registration in place.
type BrokerRegistrationChange struct {
	Caused
	BrokerID             protocol.NodeID
	BrokerEpoch          protocol.BrokerEpoch
	Fenced               int8 // 1 fence, −1 unfence, 0 as it is
	InControlledShutdown int8 // 1 in shutdown, 0 as it is
	LogDirs              []protocol.UUID
	CordonedLogDirs      []protocol.UUID // nil = null = as it is
}

// NoOp keeps an idle log moving.
type NoOp struct{}

// BeginTransaction starts a metadata transaction: many batches, applied at its end.
type BeginTransaction struct {
	Name *string
}

// EndTransaction applies the transaction.
type EndTransaction struct{}

// AbortTransaction discards the transaction.
type AbortTransaction struct {
	Reason *string
}

// RegisterController says that a controller registered.
type RegisterController struct {
	Caused
	ControllerID     protocol.NodeID
	IncarnationID    protocol.UUID
	ZKMigrationReady bool
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// ClearELR clears the eligible leader replicas of one topic, or of all where
// TopicName is empty.
type ClearELR struct {
	Caused
	TopicName string
}

// UnregisterController removes a controller's registration.
type UnregisterController struct {
	Caused
	ControllerID protocol.NodeID
}

// ZKMigrationState is the phase of a migration from ZooKeeper. Kafka 4 writes
// none but logs that began before it hold some.
type ZKMigrationState struct {
	State int8
}
