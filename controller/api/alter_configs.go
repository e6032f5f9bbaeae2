package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) incrementalAlterConfigs(c call) answer {
	req := c.body.(*kmsg.IncrementalAlterConfigsRequest)
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.IncrementalAlterConfigs, "configs altered", deadline, h.Controller.IncrementalAlterConfigs(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.IncrementalAlterConfigsResponse {
			resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
			for _, r := range req.Resources {
				answer := kmsg.NewIncrementalAlterConfigsResponseResource()
				answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
				answer.ErrorCode, answer.ErrorMessage = code, message
				resp.Resources = append(resp.Resources, answer)
			}
			return resp
		})
}

func (h *handlers) alterConfigs(c call) answer {
	req := c.body.(*kmsg.AlterConfigsRequest)
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.AlterConfigs, "configs altered", deadline, h.Controller.AlterConfigs(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.AlterConfigsResponse {
			resp := kmsg.NewPtrAlterConfigsResponse()
			for _, r := range req.Resources {
				answer := kmsg.NewAlterConfigsResponseResource()
				answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
				answer.ErrorCode, answer.ErrorMessage = code, message
				resp.Resources = append(resp.Resources, answer)
			}
			return resp
		})
}
