package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) createACLs(c call) answer {
	req := c.body.(*kmsg.CreateACLsRequest)
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.CreateACLs, "ACLs created", deadline, h.Controller.CreateACLs(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.CreateACLsResponse {
			resp := kmsg.NewPtrCreateACLsResponse()
			for range req.Creations {
				result := kmsg.NewCreateACLsResponseResult()
				result.ErrorCode, result.ErrorMessage = code, message
				resp.Results = append(resp.Results, result)
			}
			return resp
		})
}

func (h *handlers) deleteACLs(c call) answer {
	req := c.body.(*kmsg.DeleteACLsRequest)
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.DeleteACLs, "ACLs deleted", deadline, h.Controller.DeleteACLs(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.DeleteACLsResponse {
			resp := kmsg.NewPtrDeleteACLsResponse()
			for range req.Filters {
				result := kmsg.NewDeleteACLsResponseResult()
				result.ErrorCode, result.ErrorMessage = code, message
				resp.Results = append(resp.Results, result)
			}
			return resp
		})
}
