package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) alterClientQuotas(c call) answer {
	req := c.body.(*kmsg.AlterClientQuotasRequest)
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.AlterClientQuotas, "client quotas altered", deadline, h.Controller.AlterClientQuotas(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.AlterClientQuotasResponse {
			resp := kmsg.NewPtrAlterClientQuotasResponse()
			if code == int16(protocol.ErrNotController) { // in other words than elsewhere, as in Kafka
				message = kmsg.StringPtr("This is not the correct controller for this cluster.")
			}
			for _, entry := range req.Entries {
				answer := kmsg.NewAlterClientQuotasResponseEntry()
				answer.ErrorCode, answer.ErrorMessage = code, message
				for _, part := range entry.Entity {
					answer.Entity = append(answer.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: part.Type, Name: part.Name})
				}
				resp.Entries = append(resp.Entries, answer)
			}
			return resp
		})
}
