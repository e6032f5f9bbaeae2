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
	var apis []server.API
	serve := func(key kmsg.Key, handle server.Handler) {
		info, ok := protocol.API(int16(key))
		if !ok {
			panic("broker/api: Kafka 4.4 has no API " + key.Name())
		}
		apis = append(apis, server.API{Key: info.Key, Min: info.Min, Max: info.Max, Handle: handle})
	}
	serve(kmsg.Metadata, a.metadata)
	serve(kmsg.FindCoordinator, a.findCoordinator)
	serve(kmsg.CreateTopics, a.createTopics)
	serve(kmsg.DeleteTopics, a.deleteTopics)
	serve(kmsg.InitProducerID, a.initProducerID)
	serve(kmsg.DescribeQuorum, a.describeQuorum)
	serve(kmsg.CreatePartitions, a.createPartitions)
	serve(kmsg.ElectLeaders, a.electLeaders)
	serve(kmsg.AlterPartitionAssignments, a.alterPartitionReassignments)
	serve(kmsg.ListPartitionReassignments, a.listPartitionReassignments)
	serve(kmsg.UnregisterBroker, a.unregisterBroker)
	serve(kmsg.AlterConfigs, a.alterConfigs)
	serve(kmsg.IncrementalAlterConfigs, a.incrementalAlterConfigs)
	serve(kmsg.ListConfigResources, a.listConfigResources)
	serve(kmsg.UpdateFeatures, a.updateFeatures)
	serve(kmsg.UnregisterController, a.unregisterController)
	serve(kmsg.DescribeTopicPartitions, a.describeTopicPartitions)
	serve(kmsg.AlterClientQuotas, a.alterClientQuotas)
	serve(kmsg.DescribeClientQuotas, a.describeClientQuotas)
	serve(kmsg.AlterUserSCRAMCredentials, a.alterUserScramCredentials)
	serve(kmsg.DescribeUserSCRAMCredentials, a.describeUserScramCredentials)
	serve(kmsg.CreateACLs, a.createACLs)
	serve(kmsg.DeleteACLs, a.deleteACLs)
	serve(kmsg.CreateDelegationToken, createDelegationToken)
	serve(kmsg.RenewDelegationToken, renewDelegationToken)
	serve(kmsg.ExpireDelegationToken, expireDelegationToken)
	serve(kmsg.DescribeDelegationToken, describeDelegationToken)
	serve(kmsg.SASLHandshake, saslHandshake)
	serve(kmsg.SASLAuthenticate, saslAuthenticate)
	serve(kmsg.GetTelemetrySubscriptions, getTelemetrySubscriptions)
	serve(kmsg.PushTelemetry, pushTelemetry)
	return apis
}
