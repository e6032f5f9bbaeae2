package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) unregisterBroker(c call) answer {
	req := c.body.(*kmsg.UnregisterBrokerRequest)
	pending := h.Controller.UnregisterBroker(protocol.NodeID(req.BrokerID), c.caller.principal, c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		_, err := pending.Wait(ctx)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = h.code(err, kmsg.UnregisterBroker), protocol.MessageOf(err)
		} else {
			resp.ErrorMessage = new(string) // as Kafka has it
		}
		return resp, err
	}
}
