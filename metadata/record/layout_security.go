package record

import "github.com/klamm/klamm/metadata/feature"

// ID of DelegationTokenRecord.
func (r *DelegationToken) ID() int16 { return 10 }

func (r *DelegationToken) version(feature.Level) int16 { return 0 }

func (r *DelegationToken) walk(v visitor, _ int16) {
	v.string("owner", &r.Owner)
	v.string("requester", &r.Requester)
	v.strings("renewers", &r.Renewers)
	v.int64("issueTimestamp", &r.IssueTimestampMs)
	v.int64("maxTimestamp", &r.MaxTimestampMs)
	v.int64("expirationTimestamp", &r.ExpirationTimestampMs)
	v.string("tokenId", &r.TokenID)
	v.end()
}

// ID of UserScramCredentialRecord.
func (r *UserScramCredential) ID() int16 { return 11 }

func (r *UserScramCredential) version(feature.Level) int16 { return 0 }

func (r *UserScramCredential) walk(v visitor, _ int16) {
	v.string("name", &r.Name)
	v.int8("mechanism", &r.Mechanism)
	v.bytes("salt", &r.Salt)
	v.bytes("storedKey", &r.StoredKey)
	v.bytes("serverKey", &r.ServerKey)
	v.int32("iterations", &r.Iterations)
	r.end(v)
}

// ID of ClientQuotaRecord.
func (r *ClientQuota) ID() int16 { return 14 }

func (r *ClientQuota) version(feature.Level) int16 { return 0 }

func (r *ClientQuota) walk(v visitor, _ int16) {
	list(v, "entity", &r.Entity, func(e *QuotaEntity) {
		v.string("entityType", &e.Type)
		v.nullableString("entityName", &e.Name)
		v.end()
	})
	v.string("key", &r.Key)
	v.float64("value", &r.Value)
	v.bool("remove", &r.Remove)
	r.end(v)
}

// ID of AccessControlEntryRecord.
func (r *AccessControlEntry) ID() int16 { return 18 }

func (r *AccessControlEntry) version(feature.Level) int16 { return 0 }

func (r *AccessControlEntry) walk(v visitor, _ int16) {
	v.uuid("id", &r.ACLID)
	v.int8("resourceType", &r.ResourceType)
	v.string("resourceName", &r.ResourceName)
	v.int8("patternType", &r.PatternType)
	v.string("principal", &r.Principal)
	v.string("host", &r.Host)
	v.int8("operation", &r.Operation)
	v.int8("permissionType", &r.PermissionType)
	r.end(v)
}

// ID of RemoveAccessControlEntryRecord.
func (r *RemoveAccessControlEntry) ID() int16 { return 19 }

func (r *RemoveAccessControlEntry) version(feature.Level) int16 { return 0 }

func (r *RemoveAccessControlEntry) walk(v visitor, _ int16) {
	v.uuid("id", &r.ACLID)
	r.end(v)
}

// ID of RemoveUserScramCredentialRecord.
func (r *RemoveUserScramCredential) ID() int16 { return 22 }

func (r *RemoveUserScramCredential) version(feature.Level) int16 { return 0 }

func (r *RemoveUserScramCredential) walk(v visitor, _ int16) {
	v.string("name", &r.Name)
	v.int8("mechanism", &r.Mechanism)
	r.end(v)
}

// ID of RemoveDelegationTokenRecord.
func (r *RemoveDelegationToken) ID() int16 { return 26 }

func (r *RemoveDelegationToken) version(feature.Level) int16 { return 0 }

func (r *RemoveDelegationToken) walk(v visitor, _ int16) {
	v.string("tokenId", &r.TokenID)
	v.end()
}
