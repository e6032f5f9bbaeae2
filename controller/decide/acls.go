package decide

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/auth"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// clusterResource is the only name that a resource of type CLUSTER has.
const clusterResource = "kafka-cluster"

// errNoAuthorizer is the answer where nobody would look at ACLs.
var errNoAuthorizer = protocol.Errorf(protocol.ErrSecurityDisabled, "No Authorizer is configured.")

// CreateACLs decides new ACLs, each for itself. One that is there already is
// created again in the answer only.
func CreateACLs(img *metadata.Image, req *kmsg.CreateACLsRequest, env Env) ([]record.Record, *kmsg.CreateACLsResponse) {
	resp := kmsg.NewPtrCreateACLsResponse()
	have := make(map[record.AccessControlEntry]bool)
	if env.Authorizer {
		for acl := range img.ACLs() {
			have[withoutID(*acl)] = true
		}
	}
	var records []record.Record
	for _, c := range req.Creations {
		err := errNoAuthorizer
		if env.Authorizer {
			err = checkACL(c)
		}
		acl := record.AccessControlEntry{
			ResourceType: int8(c.ResourceType), ResourceName: c.ResourceName, PatternType: int8(c.ResourcePatternType),
			Principal: c.Principal, Host: c.Host, Operation: int8(c.Operation), PermissionType: int8(c.PermissionType),
		}
		if err == nil && !have[acl] {
			have[acl] = true
			acl.ACLID = env.NewID()
			records = append(records, &acl)
		}
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		if err == nil {
			result.ErrorMessage = new(string) // as Kafka has it
		}
		resp.Results = append(resp.Results, result)
	}
	return records, resp
}

func withoutID(acl record.AccessControlEntry) record.AccessControlEntry {
	acl.ACLID = protocol.ZeroUUID
	return acl
}

// checkACL refuses what no ACL can say: Any and Match are for filters.
func checkACL(c kmsg.CreateACLsRequestCreation) error {
	switch {
	case c.ResourceType == kmsg.ACLResourceTypeCluster && c.ResourceName != clusterResource:
		return protocol.Errorf(protocol.ErrInvalidRequest, "The only valid name for the CLUSTER resource is %s", clusterResource)
	case c.ResourceName == "":
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid empty resource name")
	case c.ResourceType < kmsg.ACLResourceTypeTopic || c.ResourceType > kmsg.ACLResourceTypeUser:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid resourceType %s", c.ResourceType)
	case c.ResourcePatternType != kmsg.ACLResourcePatternTypeLiteral && c.ResourcePatternType != kmsg.ACLResourcePatternTypePrefixed:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid patternType %s", c.ResourcePatternType)
	case c.Operation < kmsg.ACLOperationAll || c.Operation.String() == kmsg.ACLOperationUnknown.String():
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid operation %s", c.Operation)
	case !strings.Contains(c.Principal, ":"):
		return protocol.Errorf(protocol.ErrInvalidRequest,
			"Could not parse principal from `%s` (no colon is present separating the principal type from the principal name)", c.Principal)
	case c.PermissionType != kmsg.ACLPermissionTypeDeny && c.PermissionType != kmsg.ACLPermissionTypeAllow:
		return protocol.Errorf(protocol.ErrInvalidRequest, "Invalid permissionType %s", c.PermissionType)
	}
	return nil
}

// DeleteACLs decides the deletion of all ACLs that the filters mean. An ACL that
// two filters mean is deleted once and is in both answers.
func DeleteACLs(img *metadata.Image, req *kmsg.DeleteACLsRequest, env Env) ([]record.Record, *kmsg.DeleteACLsResponse) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	deleted := make(map[protocol.UUID]bool)
	var records []record.Record
	for _, f := range req.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		if !env.Authorizer {
			result.ErrorCode, result.ErrorMessage = int16(protocol.CodeOf(errNoAuthorizer)), protocol.MessageOf(errNoAuthorizer)
			resp.Results = append(resp.Results, result)
			continue
		}
		filter := auth.Filter{
			ResourceType: f.ResourceType, ResourceName: f.ResourceName, PatternType: f.ResourcePatternType,
			Principal: f.Principal, Host: f.Host, Operation: f.Operation, PermissionType: f.PermissionType,
		}
		for acl := range img.ACLs() {
			if !filter.Matches(acl) {
				continue
			}
			result.MatchingACLs = append(result.MatchingACLs, kmsg.DeleteACLsResponseResultMatchingACL{
				ResourceType: kmsg.ACLResourceType(acl.ResourceType), ResourceName: acl.ResourceName,
				ResourcePatternType: kmsg.ACLResourcePatternType(acl.PatternType), Principal: acl.Principal, Host: acl.Host,
				Operation: kmsg.ACLOperation(acl.Operation), PermissionType: kmsg.ACLPermissionType(acl.PermissionType),
			})
			if !deleted[acl.ACLID] {
				deleted[acl.ACLID] = true
				records = append(records, &record.RemoveAccessControlEntry{ACLID: acl.ACLID})
			}
		}
		resp.Results = append(resp.Results, result)
	}
	return records, resp
}
