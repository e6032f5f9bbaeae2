package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) updateFeatures(c call) answer {
	req := c.body.(*kmsg.UpdateFeaturesRequest)
	deadline := c.received.Add(requestTimeout) // Kafka does not look at the request's
	return change(h, c, kmsg.UpdateFeatures, "features updated", deadline, h.Controller.UpdateFeatures(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.UpdateFeaturesResponse {
			resp := kmsg.NewPtrUpdateFeaturesResponse()
			resp.ErrorCode, resp.ErrorMessage = code, message
			return resp
		})
}
