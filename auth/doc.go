// Package auth knows what access control lists mean.
//
// So far that is which ACLs a filter means: DescribeAcls and DeleteAcls name
// ACLs by filters. ACLs are stored and not enforced yet.
//
//	f := auth.Filter{ResourceType: kmsg.ACLResourceTypeTopic, ...}
//	if f.Matches(acl) { ... }
//
// The package is plain functions over values of metadata/record. Start reading
// at Filter.
package auth
