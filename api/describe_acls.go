package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/auth"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// DescribeACLs returns the API of that name.
func DescribeACLs(env Env) server.API {
	return server.Serve(kmsg.DescribeACLs, func(_ context.Context, req *server.Request) server.Answer {
		return describeACLs(env, req.Body.(*kmsg.DescribeACLsRequest))
	})
}

// describeACLs answers with the ACLs that a filter means, by resource.
func describeACLs(env Env, req *kmsg.DescribeACLsRequest) server.Answer {
	filter := auth.Filter{
		ResourceType: req.ResourceType, ResourceName: req.ResourceName, PatternType: req.ResourcePatternType,
		Principal: req.Principal, Host: req.Host, Operation: req.Operation, PermissionType: req.PermissionType,
	}
	if filter.HasUnknown() {
		return server.Answer{Close: auth.ErrUnknownElement}
	}
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.Version = req.Version
	if !env.Authorizer {
		err := protocol.Errorf(protocol.ErrSecurityDisabled, "No Authorizer is configured on the broker")
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return server.Answer{Response: resp}
	}
	resp.ErrorMessage = new(string) // as Kafka has it
	type pattern struct {
		kind    int8
		name    string
		pattern int8
	}
	at := make(map[pattern]int) // into resp.Resources
	for acl := range env.Image().ACLs() {
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
