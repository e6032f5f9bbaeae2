package record

import "github.com/klamm/klamm/protocol"

// DelegationToken is the state of a delegation token. Its HMAC is not in it: it
// derives from the secret key.
type DelegationToken struct {
	Owner                 string
	Requester             string
	Renewers              []string
	IssueTimestampMs      int64
	MaxTimestampMs        int64
	ExpirationTimestampMs int64
	TokenID               string
}

// RemoveDelegationToken deletes a delegation token.
type RemoveDelegationToken struct {
	TokenID string
}

// UserScramCredential is one SCRAM credential of a user, in the form that lets
// a server check a password without knowing it (RFC 5802).
type UserScramCredential struct {
	Caused
	Name       string
	Mechanism  int8 // 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// RemoveUserScramCredential deletes one SCRAM credential of a user.
type RemoveUserScramCredential struct {
	Caused
	Name      string
	Mechanism int8
}

// QuotaEntity is one part of what a quota applies to, for example a user; a nil
// Name is the default of that type.
type QuotaEntity struct {
	Type string
	Name *string
}

// ClientQuota sets one quota of one entity, or removes it.
type ClientQuota struct {
	Caused
	Entity []QuotaEntity
	Key    string
	Value  float64 // 0 where Remove is set
	Remove bool
}

// AccessControlEntry is one ACL.
type AccessControlEntry struct {
	Caused
	ACLID          protocol.UUID
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

// RemoveAccessControlEntry deletes the ACL of that id.
type RemoveAccessControlEntry struct {
	Caused
	ACLID protocol.UUID
}
