package auth

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
)

func TestFilter(t *testing.T) {
	text := func(s string) *string { return &s }
	const (
		topic, group           = kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup
		literal, prefixed      = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
		anyPattern, match      = kmsg.ACLResourcePatternTypeAny, kmsg.ACLResourcePatternTypeMatch
		read, write            = kmsg.ACLOperationRead, kmsg.ACLOperationWrite
		anyOperation, anyGrant = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	)
	acl := func(name string, pattern kmsg.ACLResourcePatternType) *record.AccessControlEntry {
		return &record.AccessControlEntry{
			ResourceType: int8(topic), ResourceName: name, PatternType: int8(pattern),
			Principal: "User:a", Host: "*", Operation: int8(read), PermissionType: int8(kmsg.ACLPermissionTypeAllow),
		}
	}
	filter := func(change func(*Filter)) Filter {
		f := Filter{ResourceType: kmsg.ACLResourceTypeAny, PatternType: anyPattern, Operation: anyOperation, PermissionType: anyGrant}
		change(&f)
		return f
	}
	for name, test := range map[string]struct {
		filter Filter
		acl    *record.AccessControlEntry
		want   bool
	}{
		"all":                   {filter(func(*Filter) {}), acl("x", literal), true},
		"type":                  {filter(func(f *Filter) { f.ResourceType = topic }), acl("x", literal), true},
		"another type":          {filter(func(f *Filter) { f.ResourceType = group }), acl("x", literal), false},
		"name":                  {filter(func(f *Filter) { f.ResourceName = text("x") }), acl("x", prefixed), true},
		"another name":          {filter(func(f *Filter) { f.ResourceName = text("xy") }), acl("x", prefixed), false},
		"pattern":               {filter(func(f *Filter) { f.PatternType = prefixed }), acl("x", prefixed), true},
		"another pattern":       {filter(func(f *Filter) { f.PatternType = literal }), acl("x", prefixed), false},
		"match without name":    {filter(func(f *Filter) { f.PatternType = match }), acl("x", prefixed), true},
		"match by prefix":       {filter(func(f *Filter) { f.PatternType, f.ResourceName = match, text("xy") }), acl("x", prefixed), true},
		"match by name":         {filter(func(f *Filter) { f.PatternType, f.ResourceName = match, text("x") }), acl("x", literal), true},
		"match by star":         {filter(func(f *Filter) { f.PatternType, f.ResourceName = match, text("x") }), acl("*", literal), true},
		"match, longer literal": {filter(func(f *Filter) { f.PatternType, f.ResourceName = match, text("xy") }), acl("x", literal), false},
		"principal":             {filter(func(f *Filter) { f.Principal = text("User:a") }), acl("x", literal), true},
		"another principal":     {filter(func(f *Filter) { f.Principal = text("User:b") }), acl("x", literal), false},
		"another host":          {filter(func(f *Filter) { f.Host = text("10.0.0.1") }), acl("x", literal), false},
		"operation":             {filter(func(f *Filter) { f.Operation = read }), acl("x", literal), true},
		"another operation":     {filter(func(f *Filter) { f.Operation = write }), acl("x", literal), false},
		"another permission":    {filter(func(f *Filter) { f.PermissionType = kmsg.ACLPermissionTypeDeny }), acl("x", literal), false},
	} {
		if got := test.filter.Matches(test.acl); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if test.filter.HasUnknown() {
			t.Errorf("%s: has a field that is not known", name)
		}
	}
	if !filter(func(f *Filter) { f.Operation = kmsg.ACLOperationUnknown }).HasUnknown() {
		t.Error("an operation that is not known is not noticed")
	}
}
