package api

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *handlers) alterUserScramCredentials(c call) answer {
	req := c.body.(*kmsg.AlterUserSCRAMCredentialsRequest)
	for i := range req.Upsertions { // out of the frame, which is gone by the decision
		u := &req.Upsertions[i]
		u.Salt, u.SaltedPassword = bytes.Clone(u.Salt), bytes.Clone(u.SaltedPassword)
	}
	deadline := c.received.Add(requestTimeout)
	return change(h, c, kmsg.AlterUserSCRAMCredentials, "SCRAM credentials altered", deadline, h.Controller.AlterUserScramCredentials(req, c.caller.principal, deadline),
		func(code int16, message *string) *kmsg.AlterUserSCRAMCredentialsResponse {
			resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
			add := func(user string) {
				result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
				result.User, result.ErrorCode, result.ErrorMessage = user, code, message
				resp.Results = append(resp.Results, result)
			}
			for _, d := range req.Deletions {
				add(d.Name)
			}
			for _, u := range req.Upsertions {
				add(u.Name)
			}
			return resp
		})
}
