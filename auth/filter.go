package auth

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
)

// Filter means ACLs: each field lets those pass that have its value. Any lets all
// pass, as null does for the texts.
type Filter struct {
	ResourceType kmsg.ACLResourceType
	ResourceName *string
	// PatternType is a type of pattern, Any for all of them, or Match for the
	// patterns that ResourceName as the name of a resource falls under.
	PatternType    kmsg.ACLResourcePatternType
	Principal      *string
	Host           *string
	Operation      kmsg.ACLOperation
	PermissionType kmsg.ACLPermissionType
}

// ErrUnknownElement closes the connection, as Kafka does: a request with an
// element that stands for "not known" cannot even be read there.
var ErrUnknownElement = errors.New("a request for ACLs contains unknown elements")

// HasUnknown tells whether a field has the number that stands for "not known".
func (f Filter) HasUnknown() bool {
	return f.ResourceType == kmsg.ACLResourceTypeUnknown || f.PatternType == kmsg.ACLResourcePatternTypeUnknown ||
		f.Operation == kmsg.ACLOperationUnknown || f.PermissionType == kmsg.ACLPermissionTypeUnknown
}

// Matches tells whether the filter means an ACL.
func (f Filter) Matches(acl *record.AccessControlEntry) bool {
	return (f.ResourceType == kmsg.ACLResourceTypeAny || int8(f.ResourceType) == acl.ResourceType) &&
		(f.Operation == kmsg.ACLOperationAny || int8(f.Operation) == acl.Operation) &&
		(f.PermissionType == kmsg.ACLPermissionTypeAny || int8(f.PermissionType) == acl.PermissionType) &&
		(f.Principal == nil || *f.Principal == acl.Principal) &&
		(f.Host == nil || *f.Host == acl.Host) &&
		f.matchesPattern(acl)
}

func (f Filter) matchesPattern(acl *record.AccessControlEntry) bool {
	if f.PatternType != kmsg.ACLResourcePatternTypeMatch {
		return (f.PatternType == kmsg.ACLResourcePatternTypeAny || int8(f.PatternType) == acl.PatternType) &&
			(f.ResourceName == nil || *f.ResourceName == acl.ResourceName)
	}
	switch {
	case f.ResourceName == nil:
		return true
	case acl.PatternType == int8(kmsg.ACLResourcePatternTypeLiteral):
		return acl.ResourceName == *f.ResourceName || acl.ResourceName == "*"
	case acl.PatternType == int8(kmsg.ACLResourcePatternTypePrefixed):
		return strings.HasPrefix(*f.ResourceName, acl.ResourceName)
	}
	return false
}
