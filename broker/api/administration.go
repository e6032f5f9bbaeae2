package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// administration are the APIs of administrators' tools.
func (a *Admin) administration() []server.API {
	var apis []server.API
	for key, handle := range map[kmsg.Key]server.Handler{
		kmsg.AlterConfigs:                 a.alterConfigs,
		kmsg.IncrementalAlterConfigs:      a.incrementalAlterConfigs,
		kmsg.ListConfigResources:          a.listConfigResources,
		kmsg.UpdateFeatures:               a.updateFeatures,
		kmsg.UnregisterController:         a.unregisterController,
		kmsg.DescribeTopicPartitions:      a.describeTopicPartitions,
		kmsg.AlterClientQuotas:            a.alterClientQuotas,
		kmsg.DescribeClientQuotas:         a.describeClientQuotas,
		kmsg.AlterUserSCRAMCredentials:    a.alterUserScramCredentials,
		kmsg.DescribeUserSCRAMCredentials: a.describeUserScramCredentials,
		kmsg.CreateACLs:                   a.createACLs,
		kmsg.DeleteACLs:                   a.deleteACLs,
		kmsg.CreateDelegationToken:        createDelegationToken,
		kmsg.RenewDelegationToken:         renewDelegationToken,
		kmsg.ExpireDelegationToken:        expireDelegationToken,
		kmsg.DescribeDelegationToken:      describeDelegationToken,
		kmsg.SASLHandshake:                saslHandshake,
		kmsg.SASLAuthenticate:             saslAuthenticate,
		kmsg.GetTelemetrySubscriptions:    getTelemetrySubscriptions,
		kmsg.PushTelemetry:                pushTelemetry,
	} {
		info, ok := protocol.API(int16(key))
		if !ok {
			panic("broker/api: Kafka 4.4 has no API " + key.Name())
		}
		apis = append(apis, server.API{Key: info.Key, Min: info.Min, Max: info.Max, Handle: handle})
	}
	return apis
}

// updateFeatures has the controller finalize levels of features.
func (a *Admin) updateFeatures(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.Version = req.Version
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return resp
	})
}

// unregisterController has the controller forget another one.
func (a *Admin) unregisterController(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrUnregisterControllerResponse()
		resp.Version = req.Version
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return resp
	})
}
