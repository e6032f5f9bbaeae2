package metadata

import (
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Resource types of configs (ConfigResource.java).
const (
	ResourceTopic         int8 = 2
	ResourceBroker        int8 = 4
	ResourceBrokerLogger  int8 = 8
	ResourceClientMetrics int8 = 16
	ResourceGroup         int8 = 32
)

// Broker is one registration, as records made it. It is never modified once an
// image holds it.
type Broker struct {
	ID                   protocol.NodeID
	IncarnationID        protocol.UUID
	Epoch                protocol.BrokerEpoch
	Endpoints            []record.Endpoint
	Features             []record.FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []protocol.UUID
	CordonedLogDirs      []protocol.UUID
}

// Controller is one controller's registration.
type Controller struct {
	ID            protocol.NodeID
	IncarnationID protocol.UUID
	Endpoints     []record.Endpoint
	Features      []record.FeatureRange
}

// Partition is the state of one partition. It is never modified once an image
// holds it.
type Partition struct {
	ID               int32
	Replicas         []protocol.NodeID
	Directories      []protocol.UUID // as long as Replicas
	ISR              []protocol.NodeID
	ELR              []protocol.NodeID
	LastKnownELR     []protocol.NodeID
	RemovingReplicas []protocol.NodeID
	AddingReplicas   []protocol.NodeID
	Leader           protocol.NodeID // NoNode where none can lead
	LeaderRecovery   int8            // 0 recovered, 1 recovering (KIP-704)
	LeaderEpoch      protocol.LeaderEpoch
	PartitionEpoch   protocol.PartitionEpoch
}

// Resource names what a config belongs to; the name "" of a broker is the
// cluster-wide default.
type Resource struct {
	Type int8
	Name string
}
