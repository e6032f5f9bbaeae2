package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) registerBroker(c call) answer {
	pending := h.Controller.RegisterBroker(c.body.(*kmsg.BrokerRegistrationRequest), c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrBrokerRegistrationResponse()
		epoch, err := pending.Wait(ctx)
		resp.BrokerEpoch = int64(epoch)
		if err != nil {
			resp.ErrorCode, resp.BrokerEpoch = h.code(err, kmsg.BrokerRegistration), -1
		}
		return resp, err
	}
}
