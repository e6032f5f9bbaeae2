package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// incrementalAlterConfigs sets the levels of this node's loggers itself, leading
// or not: they are in no log. The rest is the controller's, and is answered first.
func (h *handlers) incrementalAlterConfigs(c call) answer {
	req := *c.body.(*kmsg.IncrementalAlterConfigsRequest)
	var loggers []kmsg.IncrementalAlterConfigsResponseResource
	loggers, req.Resources = h.alterLoggers(&req)
	if len(loggers) > 0 && len(req.Resources) == 0 {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		resp.Resources = loggers
		return answered(resp)
	}
	deadline := c.received.Add(requestTimeout)
	finish := change(h, c, kmsg.IncrementalAlterConfigs, "configs altered", deadline, h.Controller.IncrementalAlterConfigs(&req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.IncrementalAlterConfigsResponse {
			resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
			for _, r := range req.Resources {
				resp.Resources = append(resp.Resources, alteredConfigs(r, code, message))
			}
			return resp
		})
	return func(ctx context.Context) (kmsg.Response, error) {
		resp, err := finish(ctx)
		whole := resp.(*kmsg.IncrementalAlterConfigsResponse)
		whole.Resources = append(whole.Resources, loggers...)
		return whole, err
	}
}

func alteredConfigs(r kmsg.IncrementalAlterConfigsRequestResource, code int16, message *string) kmsg.IncrementalAlterConfigsResponseResource {
	answer := kmsg.NewIncrementalAlterConfigsResponseResource()
	answer.ResourceType, answer.ResourceName = r.ResourceType, r.ResourceName
	answer.ErrorCode, answer.ErrorMessage = code, message
	return answer
}

// alterLoggers does what a request asks of loggers. It returns the answers, and
// the resources of other kinds.
func (h *handlers) alterLoggers(req *kmsg.IncrementalAlterConfigsRequest) (done []kmsg.IncrementalAlterConfigsResponseResource, rest []kmsg.IncrementalAlterConfigsRequestResource) {
	for _, r := range req.Resources {
		if int8(r.ResourceType) != metadata.ResourceBrokerLogger {
			rest = append(rest, r)
			continue
		}
		err := h.Loggers.Alter(r.ResourceName, r.Configs, req.ValidateOnly)
		done = append(done, alteredConfigs(r, int16(protocol.CodeOf(err)), protocol.MessageOf(err)))
	}
	return done, rest
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
