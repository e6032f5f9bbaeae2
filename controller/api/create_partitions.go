package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) createPartitions(c call) answer {
	req := c.body.(*kmsg.CreatePartitionsRequest)
	deadline := c.deadline(req.TimeoutMillis)
	return change(h, c, kmsg.CreatePartitions, "partitions created", deadline, h.Controller.CreatePartitions(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.CreatePartitionsResponse {
			resp := kmsg.NewPtrCreatePartitionsResponse()
			for i := range req.Topics {
				t := kmsg.NewCreatePartitionsResponseTopic()
				t.Topic, t.ErrorCode, t.ErrorMessage = req.Topics[i].Topic, code, message
				resp.Topics = append(resp.Topics, t)
			}
			return resp
		})
}
