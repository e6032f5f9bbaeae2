package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) alterPartitionReassignments(c call) answer {
	req := c.body.(*kmsg.AlterPartitionAssignmentsRequest)
	deadline := c.deadline(req.TimeoutMillis)
	return change(h, c, kmsg.AlterPartitionAssignments, "partitions reassigned", deadline, h.Controller.AlterPartitionReassignments(req, deadline),
		func(code int16, message *string) *kmsg.AlterPartitionAssignmentsResponse {
			resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = code, message
			return resp
		})
}

func (h *handlers) listPartitionReassignments(c call) answer {
	req := c.body.(*kmsg.ListPartitionReassignmentsRequest)
	pending := h.Controller.ListPartitionReassignments(req, c.deadline(req.TimeoutMillis))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrListPartitionReassignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = h.code(err, kmsg.ListPartitionReassignments), protocol.MessageOf(err)
		}
		return resp, err
	}
}
