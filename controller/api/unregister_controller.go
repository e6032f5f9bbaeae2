package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) unregisterController(c call) answer {
	req := c.body.(*kmsg.UnregisterControllerRequest)
	pending := h.Controller.UnregisterController(protocol.NodeID(req.ControllerID), c.caller.principal, c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrUnregisterControllerResponse()
		_, err := pending.Wait(ctx)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = h.code(err, kmsg.UnregisterController), protocol.MessageOf(err)
		} else {
			resp.ErrorMessage = new(string) // as Kafka has it
		}
		return resp, err
	}
}
