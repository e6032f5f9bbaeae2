package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// alterUserScramCredentials has the controller set and delete credentials.
func (a *Admin) alterUserScramCredentials(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.AlterUserSCRAMCredentialsRequest)
	var users []string
	for _, d := range body.Deletions {
		users = append(users, d.Name)
	}
	for _, u := range body.Upsertions {
		users = append(users, u.Name)
	}
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
		for _, user := range users {
			result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
			result.User, result.ErrorCode, result.ErrorMessage = user, code, message
			resp.Results = append(resp.Results, result)
		}
		return resp
	})
}

// describeUserScramCredentials tells which mechanisms users have credentials for,
// and never the credentials. Without names it tells of all users.
func (a *Admin) describeUserScramCredentials(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.Version = req.Version
	none := ""
	resp.ErrorMessage = &none

	infos := make(map[string][]kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo)
	var users []string // in the answer's order, each once
	count := make(map[string]int)
	add := func(user string) {
		if count[user]++; count[user] == 1 {
			users = append(users, user)
		}
	}
	for _, u := range body.Users {
		add(u.Name)
	}
	for c := range a.Image().ScramCredentials() {
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = c.Mechanism, c.Iterations
		if infos[c.Name] = append(infos[c.Name], info); len(body.Users) == 0 && len(infos[c.Name]) == 1 {
			add(c.Name)
		}
	}
	for _, user := range users {
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.User, result.ErrorMessage = user, &none
		var err error
		switch {
		case count[user] > 1:
			err = protocol.Errorf(protocol.ErrDuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", user)
		case infos[user] == nil:
			err = protocol.Errorf(protocol.ErrResourceNotFound, "Attempt to describe a user credential that does not exist: %s", user)
		default:
			result.CredentialInfos = infos[user]
		}
		if err != nil {
			result.ErrorCode, result.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		}
		resp.Results = append(resp.Results, result)
	}
	return server.Answer{Response: resp}
}
