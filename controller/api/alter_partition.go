package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) alterPartition(c call) answer {
	pending := h.Controller.AlterPartition(c.body.(*kmsg.AlterPartitionRequest), c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrAlterPartitionResponse()
			resp.ErrorCode = h.code(err, kmsg.AlterPartition)
		}
		return resp, err
	}
}
