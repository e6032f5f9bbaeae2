package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) allocateProducerIDs(c call) answer {
	pending := h.Controller.AllocateProducerIDs(c.body.(*kmsg.AllocateProducerIDsRequest), c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrAllocateProducerIDsResponse()
			resp.ErrorCode = h.code(err, kmsg.AllocateProducerIDs)
		}
		return resp, err
	}
}
