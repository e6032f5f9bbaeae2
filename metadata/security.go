package metadata

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"strings"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// The image holds ACLs, SCRAM credentials and delegation tokens as the records
// that made them: there is nothing to derive. They are never modified once an
// image holds them.

func aclLess(a, b *record.AccessControlEntry) bool {
	return bytes.Compare(a.ACLID[:], b.ACLID[:]) < 0
}

// scramLess orders by mechanism first, as a snapshot does.
func scramLess(a, b *record.UserScramCredential) bool {
	return cmp.Or(cmp.Compare(a.Mechanism, b.Mechanism), strings.Compare(a.Name, b.Name)) < 0
}

func tokenLess(a, b *record.DelegationToken) bool { return a.TokenID < b.TokenID }

// ACL returns the ACL of that id.
func (img *Image) ACL(id protocol.UUID) (*record.AccessControlEntry, bool) {
	return img.acls.get(&record.AccessControlEntry{ACLID: id})
}

// ACLs yields all ACLs by id.
func (img *Image) ACLs() iter.Seq[*record.AccessControlEntry] {
	return func(yield func(*record.AccessControlEntry) bool) { img.acls.tree.Scan(yield) }
}

// ScramCredential returns a user's credential for a mechanism (1 SCRAM-SHA-256,
// 2 SCRAM-SHA-512).
func (img *Image) ScramCredential(user string, mechanism int8) (*record.UserScramCredential, bool) {
	return img.scram.get(&record.UserScramCredential{Name: user, Mechanism: mechanism})
}

// ScramCredentials yields all credentials by mechanism and user.
func (img *Image) ScramCredentials() iter.Seq[*record.UserScramCredential] {
	return func(yield func(*record.UserScramCredential) bool) { img.scram.tree.Scan(yield) }
}

// DelegationTokens yields all delegation tokens by id.
func (img *Image) DelegationTokens() iter.Seq[*record.DelegationToken] {
	return func(yield func(*record.DelegationToken) bool) { img.tokens.tree.Scan(yield) }
}

// withoutCause returns what of a record is state.
func withoutCause[R any, P interface {
	*R
	record.Record
}](rec P) P {
	if record.CauseOf(rec) == "" {
		return rec
	}
	state := *rec
	record.SetCause(P(&state), "")
	return &state
}

func (d *Delta) removeACL(r *record.RemoveAccessControlEntry) error {
	if _, ok := d.acls.Delete(&record.AccessControlEntry{ACLID: r.ACLID}); !ok {
		return fmt.Errorf("ACL %s is unknown", r.ACLID)
	}
	return nil
}

// removeScram and removeToken take back what may not be there: Kafka's own
// images forgive that too.
func (d *Delta) removeScram(r *record.RemoveUserScramCredential) {
	d.scram.Delete(&record.UserScramCredential{Name: r.Name, Mechanism: r.Mechanism})
}

func (d *Delta) removeToken(r *record.RemoveDelegationToken) {
	d.tokens.Delete(&record.DelegationToken{TokenID: r.TokenID})
}

func (img *Image) aclRecords(yield func(record.Record) bool) bool {
	for acl := range img.ACLs() {
		if !yield(acl) {
			return false
		}
	}
	return true
}

func (img *Image) scramRecords(yield func(record.Record) bool) bool {
	for credential := range img.ScramCredentials() {
		if !yield(credential) {
			return false
		}
	}
	return true
}

func (img *Image) tokenRecords(yield func(record.Record) bool) bool {
	for token := range img.DelegationTokens() {
		if !yield(token) {
			return false
		}
	}
	return true
}
