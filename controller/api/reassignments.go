package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) alterPartitionReassignments(c call) answer {
	req := c.body.(*kmsg.AlterPartitionAssignmentsRequest)
	// Where nothing is asked, Kafka looks neither at the timeout nor at who leads,
	// and answers with an empty message instead of none.
	if len(req.Topics) == 0 {
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.ErrorMessage = new(string)
		return answered(resp)
	}
	deadline := c.deadline(req.TimeoutMillis)
	return change(h, c, kmsg.AlterPartitionAssignments, "partitions reassigned", deadline, h.Controller.AlterPartitionReassignments(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.AlterPartitionAssignmentsResponse {
			resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = code, message
			// Kafka says it of each partition too.
			for _, topic := range req.Topics {
				t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
				t.Topic = topic.Topic
				for _, partition := range topic.Partitions {
					p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
					p.Partition, p.ErrorCode, p.ErrorMessage = partition.Partition, code, message
					t.Partitions = append(t.Partitions, p)
				}
				resp.Topics = append(resp.Topics, t)
			}
			return resp
		})
}

func (h *handlers) listPartitionReassignments(c call) answer {
	req := c.body.(*kmsg.ListPartitionReassignmentsRequest)
	// Kafka does not look at the request's timeout.
	pending := h.Controller.ListPartitionReassignments(req, c.received.Add(requestTimeout))
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := pending.Wait(ctx)
		if err != nil {
			resp = kmsg.NewPtrListPartitionReassignmentsResponse()
			resp.ErrorCode, resp.ErrorMessage = h.code(err, kmsg.ListPartitionReassignments), protocol.MessageOf(err)
		}
		return resp, err
	}
}
