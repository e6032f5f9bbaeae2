package api

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Forwarder sends a client's request to the active controller.
type Forwarder interface {
	Forward(ctx context.Context, f *controllerclient.Forwarded) (kmsg.Response, error)
}

// Expectation waits until named topics are there, or gone, on this broker.
type Expectation interface {
	Wait(ctx context.Context, names []string) error
	Close()
}

// ProducerIDs hands out producer ids.
type ProducerIDs interface {
	Next(ctx context.Context) (int64, error)
}

// Admin answers what is not about records: metadata, configs, topics, ids and
// coordinators.
type Admin struct {
	NodeID    protocol.NodeID
	ClusterID string
	// Image returns the image that the replicas of this broker have acted on.
	Image func() *metadata.Image
	// Static are the keys of server.properties.
	Static config.Lookup
	// Loggers are what requests for BROKER_LOGGER are about.
	Loggers shared.Loggers
	// RequestTimeout bounds what is forwarded where the request itself names no
	// time (request.timeout.ms). Default 30 s.
	RequestTimeout time.Duration
	// Forward leads to the controller.
	Forward Forwarder
	// ExpectTopics begins to look for topics that appear or go. Nil: nothing is
	// waited for.
	ExpectTopics func(appear bool, names []string) Expectation
	// CatchUp waits until this broker has acted on what the controller had committed
	// when it was called. Nil: what is not known here does not exist.
	CatchUp func(ctx context.Context) error
	// ProducerIDs hands out ids to idempotent producers.
	ProducerIDs ProducerIDs
	// AutoCreate creates the topics that Metadata is asked for and that do not
	// exist; nil where auto.create.topics.enable is false.
	AutoCreate *AutoCreate
	// InternalTopics creates the topics of coordinators when they are first
	// asked for. Nil: they are not created.
	InternalTopics *AutoCreate
	Log            zerolog.Logger
}

// APIs returns what the server serves by this handler.
func (a *Admin) APIs() []server.API {
	if a.RequestTimeout == 0 {
		a.RequestTimeout = 30 * time.Second
	}
	return []server.API{
		server.Serve(kmsg.Metadata, a.metadata),
		server.Serve(kmsg.FindCoordinator, a.findCoordinator),
		server.Serve(kmsg.CreateTopics, a.createTopics),
		server.Serve(kmsg.DeleteTopics, a.deleteTopics),
		server.Serve(kmsg.InitProducerID, a.initProducerID),
		server.Serve(kmsg.DescribeQuorum, a.describeQuorum),
		server.Serve(kmsg.CreatePartitions, a.createPartitions),
		server.Serve(kmsg.ElectLeaders, a.electLeaders),
		server.Serve(kmsg.AlterPartitionAssignments, a.alterPartitionReassignments),
		server.Serve(kmsg.ListPartitionReassignments, a.listPartitionReassignments),
		server.Serve(kmsg.UnregisterBroker, a.unregisterBroker),
		server.Serve(kmsg.AlterConfigs, a.alterConfigs),
		server.Serve(kmsg.IncrementalAlterConfigs, a.incrementalAlterConfigs),
		server.Serve(kmsg.ListConfigResources, a.listConfigResources),
		server.Serve(kmsg.UpdateFeatures, a.updateFeatures),
		server.Serve(kmsg.UnregisterController, a.unregisterController),
		server.Serve(kmsg.AddRaftVoter, a.addRaftVoter),
		server.Serve(kmsg.RemoveRaftVoter, a.removeRaftVoter),
		server.Serve(kmsg.DescribeTopicPartitions, a.describeTopicPartitions),
		server.Serve(kmsg.AlterClientQuotas, a.alterClientQuotas),
		server.Serve(kmsg.DescribeClientQuotas, a.describeClientQuotas),
		server.Serve(kmsg.AlterUserSCRAMCredentials, a.alterUserScramCredentials),
		server.Serve(kmsg.DescribeUserSCRAMCredentials, a.describeUserScramCredentials),
		server.Serve(kmsg.CreateACLs, a.createACLs),
		server.Serve(kmsg.DeleteACLs, a.deleteACLs),
		server.Serve(kmsg.CreateDelegationToken, createDelegationToken),
		server.Serve(kmsg.RenewDelegationToken, renewDelegationToken),
		server.Serve(kmsg.ExpireDelegationToken, expireDelegationToken),
		server.Serve(kmsg.DescribeDelegationToken, describeDelegationToken),
		server.Serve(kmsg.SASLHandshake, saslHandshake),
		server.Serve(kmsg.SASLAuthenticate, saslAuthenticate),
		server.Serve(kmsg.GetTelemetrySubscriptions, getTelemetrySubscriptions),
		server.Serve(kmsg.PushTelemetry, pushTelemetry),
	}
}
