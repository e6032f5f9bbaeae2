package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) heartbeat(c call) answer {
	pending := h.Controller.Heartbeat(c.body.(*kmsg.BrokerHeartbeatRequest), c.received.Add(heartbeatTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrBrokerHeartbeatResponse()
			resp.IsFenced = true
			resp.ErrorCode = h.code(err, kmsg.BrokerHeartbeat)
		}
		return resp, err
	}
}
