package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

func TestDescribeACLs(t *testing.T) {
	acl := func(id byte, name, principal string) *record.AccessControlEntry {
		return &record.AccessControlEntry{
			ACLID: protocol.UUID{id}, ResourceType: 2, ResourceName: name, PatternType: 3, Principal: principal, Host: "*", Operation: 3, PermissionType: 3,
		}
	}
	img := imageOf(t, acl(1, "x", "User:a"), acl(2, "y", "User:a"), acl(3, "x", "User:b"))
	env := Env{Image: func() *metadata.Image { return img }}
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 1, 1, 1, 1
	resp := describeACLs(env, req).Response.(*kmsg.DescribeACLsResponse)
	if resp.ErrorCode != int16(protocol.CodeOf(protocol.ErrSecurityDisabled)) || resp.ErrorMessage == nil || *resp.ErrorMessage != "No Authorizer is configured on the broker" {
		t.Errorf("without an authorizer: %+v", resp)
	}
	env.Authorizer = true
	resp = describeACLs(env, req).Response.(*kmsg.DescribeACLsResponse)
	if len(resp.Resources) != 2 || resp.Resources[0].ResourceName != "x" || len(resp.Resources[0].ACLs) != 2 || resp.Resources[0].ACLs[1].Principal != "User:b" {
		t.Errorf("%+v", resp)
	}
	req.Operation = 0
	if answer := describeACLs(env, req); answer.Close == nil {
		t.Error("a request with what is unknown does not close the connection")
	}
}
