package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Clients may ask for telemetry although it is not advertised while nobody
// receives any (KIP-714). They are told to push nothing.
const (
	noSubscription      int32 = 1 // 0 is what a client says that has not asked
	telemetryIntervalMs int32 = 300_000
	telemetryMaxBytes   int32 = 1 << 20 // telemetry.max.bytes
)

func getTelemetrySubscriptions(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.GetTelemetrySubscriptionsRequest)
	resp := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	resp.Version = req.Version
	resp.ClientInstanceID = body.ClientInstanceID
	if resp.ClientInstanceID == protocol.ZeroUUID {
		resp.ClientInstanceID = protocol.NewUUID()
	}
	resp.SubscriptionID = noSubscription
	resp.AcceptedCompressionTypes = []int8{4, 3, 1, 2}
	resp.PushIntervalMillis, resp.TelemetryMaxBytes, resp.DeltaTemporality = telemetryIntervalMs, telemetryMaxBytes, true
	return server.Answer{Response: resp}
}

func pushTelemetry(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.PushTelemetryRequest)
	resp := kmsg.NewPtrPushTelemetryResponse()
	resp.Version = req.Version
	switch {
	case body.ClientInstanceID == protocol.ZeroUUID:
		resp.ErrorCode = int16(protocol.ErrInvalidRequest)
	case body.SubscriptionID != noSubscription:
		resp.ErrorCode = int16(protocol.ErrUnknownSubscriptionID)
	case len(body.Metrics) > int(telemetryMaxBytes):
		resp.ErrorCode = int16(protocol.ErrTelemetryTooLarge)
	}
	return server.Answer{Response: resp}
}
