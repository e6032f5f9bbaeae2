package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) electLeaders(c call) answer {
	req := c.body.(*kmsg.ElectLeadersRequest)
	// No topics are nobody's; null is everybody's.
	if req.Topics != nil && len(req.Topics) == 0 {
		return answered(kmsg.NewPtrElectLeadersResponse())
	}
	deadline := c.deadline(req.TimeoutMillis)
	return change(h, c, kmsg.ElectLeaders, "leaders elected", deadline, h.Controller.ElectLeaders(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.ElectLeadersResponse {
			resp := kmsg.NewPtrElectLeadersResponse()
			resp.ErrorCode = code
			for i := range req.Topics {
				t := kmsg.NewElectLeadersResponseTopic()
				t.Topic = req.Topics[i].Topic
				for _, id := range req.Topics[i].Partitions {
					p := kmsg.NewElectLeadersResponseTopicPartition()
					p.Partition, p.ErrorCode, p.ErrorMessage = id, code, message
					t.Partitions = append(t.Partitions, p)
				}
				resp.Topics = append(resp.Topics, t)
			}
			return resp
		})
}
