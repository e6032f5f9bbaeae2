package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) registerController(c call) answer {
	pending := h.Controller.RegisterController(c.body.(*kmsg.ControllerRegistrationRequest), c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrControllerRegistrationResponse()
		_, err := pending.Wait(ctx)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = h.code(err, kmsg.ControllerRegistration), protocol.MessageOf(err)
		} else {
			resp.ErrorMessage = new(string) // as Kafka has it
		}
		return resp, err
	}
}
