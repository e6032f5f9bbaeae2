package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/auth"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// errUnknownElement closes the connection, as Kafka does: a request with an
// element that stands for "not known" cannot even be read there.
var errUnknownElement = errors.New("a request for ACLs contains unknown elements")

// hasAuthorizer tells whether anybody would look at ACLs.
func (a *Admin) hasAuthorizer() bool {
	class, _ := a.brokerLayers().BrokerValue("authorizer.class.name")
	return class != ""
}

// createACLs has the controller store ACLs.
func (a *Admin) createACLs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.CreateACLsRequest)
	for _, c := range body.Creations {
		f := auth.Filter{ResourceType: c.ResourceType, PatternType: c.ResourcePatternType, Operation: c.Operation, PermissionType: c.PermissionType}
		if f.HasUnknown() {
			return server.Answer{Close: errUnknownElement}
		}
	}
	return a.forward(req, a.RequestTimeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrCreateACLsResponse()
		resp.Version = req.Version
		for range body.Creations {
			result := kmsg.NewCreateACLsResponseResult()
			result.ErrorCode, result.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
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
			return server.Answer{Close: errUnknownElement}
		}
	}
	return a.forward(req, a.RequestTimeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrDeleteACLsResponse()
		resp.Version = req.Version
		for range body.Filters {
			result := kmsg.NewDeleteACLsResponseResult()
			result.ErrorCode, result.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
			resp.Results = append(resp.Results, result)
		}
		return resp
	})
}

// describeACLs answers with the ACLs that a filter means, by resource.
func (a *Admin) describeACLs(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeACLsRequest)
	filter := auth.Filter{
		ResourceType: body.ResourceType, ResourceName: body.ResourceName, PatternType: body.ResourcePatternType,
		Principal: body.Principal, Host: body.Host, Operation: body.Operation, PermissionType: body.PermissionType,
	}
	if filter.HasUnknown() {
		return server.Answer{Close: errUnknownElement}
	}
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.Version = req.Version
	if !a.hasAuthorizer() {
		err := protocol.Errorf(protocol.ErrSecurityDisabled, "No Authorizer is configured on the broker")
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return server.Answer{Response: resp}
	}
	type pattern struct {
		kind    int8
		name    string
		pattern int8
	}
	at := make(map[pattern]int) // into resp.Resources
	for acl := range a.Image().ACLs() {
		if !filter.Matches(acl) {
			continue
		}
		key := pattern{acl.ResourceType, acl.ResourceName, acl.PatternType}
		i, ok := at[key]
		if !ok {
			i = len(resp.Resources)
			at[key] = i
			r := kmsg.NewDescribeACLsResponseResource()
			r.ResourceType, r.ResourceName = kmsg.ACLResourceType(acl.ResourceType), acl.ResourceName
			r.ResourcePatternType = kmsg.ACLResourcePatternType(acl.PatternType)
			resp.Resources = append(resp.Resources, r)
		}
		resp.Resources[i].ACLs = append(resp.Resources[i].ACLs, describedACL(acl))
	}
	return server.Answer{Response: resp}
}

func describedACL(acl *record.AccessControlEntry) kmsg.DescribeACLsResponseResourceACL {
	d := kmsg.NewDescribeACLsResponseResourceACL()
	d.Principal, d.Host = acl.Principal, acl.Host
	d.Operation, d.PermissionType = kmsg.ACLOperation(acl.Operation), kmsg.ACLPermissionType(acl.PermissionType)
	return d
}
