package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/auth"
	"github.com/klamm/klamm/protocol/server"
)

// createACLs has the controller store ACLs.
func (a *Admin) createACLs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.CreateACLsRequest)
	for _, c := range body.Creations {
		f := auth.Filter{ResourceType: c.ResourceType, PatternType: c.ResourcePatternType, Operation: c.Operation, PermissionType: c.PermissionType}
		if f.HasUnknown() {
			return server.Answer{Close: auth.ErrUnknownElement}
		}
	}
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrCreateACLsResponse()
		for range body.Creations {
			result := kmsg.NewCreateACLsResponseResult()
			result.ErrorCode, result.ErrorMessage = code, message
			resp.Results = append(resp.Results, result)
		}
		return resp
	})
}

// deleteACLs has the controller delete what filters mean.
func (a *Admin) deleteACLs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DeleteACLsRequest)
	for _, c := range body.Filters {
		f := auth.Filter{ResourceType: c.ResourceType, PatternType: c.ResourcePatternType, Operation: c.Operation, PermissionType: c.PermissionType}
		if f.HasUnknown() {
			return server.Answer{Close: auth.ErrUnknownElement}
		}
	}
	return a.forward(req, a.RequestTimeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrDeleteACLsResponse()
		for range body.Filters {
			result := kmsg.NewDeleteACLsResponseResult()
			result.ErrorCode, result.ErrorMessage = code, message
			resp.Results = append(resp.Results, result)
		}
		return resp
	})
}
