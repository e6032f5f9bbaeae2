package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) createTopics(c call) answer {
	req := c.body.(*kmsg.CreateTopicsRequest)
	deadline := c.deadline(req.TimeoutMillis)
	return change(h, c, kmsg.CreateTopics, "topics created", deadline, h.Controller.CreateTopics(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.CreateTopicsResponse {
			// Every topic has the error of the whole request; there is no other place.
			resp := kmsg.NewPtrCreateTopicsResponse()
			for i := range req.Topics {
				t := kmsg.NewCreateTopicsResponseTopic()
				t.Topic, t.ErrorCode, t.ErrorMessage = req.Topics[i].Topic, code, message
				t.NumPartitions, t.ReplicationFactor = -1, -1
				t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
				resp.Topics = append(resp.Topics, t)
			}
			return resp
		})
}
