//go:build integration

package faults

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func quota(user *string, key string, value float64) kmsg.AlterClientQuotasRequestEntry {
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type, entity.Name = "user", user
	entry.Entity = append(entry.Entity, entity)
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = key, value
	entry.Ops = append(entry.Ops, op)
	return entry
}

func alterQuota(c *conn, entry kmsg.AlterClientQuotasRequestEntry) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	return ask[*kmsg.AlterClientQuotasResponse](c, 1, req).Entries[0].ErrorCode
}

// describeQuotas asks for the quotas of one user, nil is the default of all.
func describeQuotas(c *conn, user *string) map[string]float64 {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	component := kmsg.NewDescribeClientQuotasRequestComponent()
	component.EntityType, component.Match = "user", user
	component.MatchType = kmsg.QuotasMatchTypeExact
	if user == nil {
		component.MatchType = kmsg.QuotasMatchTypeDefault
	}
	req.Components, req.Strict = append(req.Components, component), true
	resp := ask[*kmsg.DescribeClientQuotasResponse](c, 1, req)
	wantCode(c.t, "DescribeClientQuotas", resp.ErrorCode, protocol.None)
	values := map[string]float64{}
	for _, entry := range resp.Entries {
		for _, value := range entry.Values {
			values[value.Key] = value.Value
		}
	}
	return values
}

// TestB182ValuesThatAreNoQuotas: quotas of zero and below were taken, and the
// names of credentials as keys of quotas.
func TestB182ValuesThatAreNoQuotas(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	user := unique(t, "user")
	for _, refused := range []kmsg.AlterClientQuotasRequestEntry{
		quota(&user, "producer_byte_rate", 0),
		quota(&user, "producer_byte_rate", -1),
		quota(&user, "SCRAM-SHA-256", 1),
	} {
		wantCode(t, refused.Ops[0].Key, alterQuota(c, refused), protocol.ErrInvalidRequest)
	}
	if got := describeQuotas(c, &user); len(got) != 0 {
		t.Errorf("described are %v", got)
	}
}

// TestB183QuotaOfEverybody: the quota of users without one of their own could
// not be set. Its entity has no name.
func TestB183QuotaOfEverybody(t *testing.T) {
	t.Parallel()
	c := dial(t, ownNode(t).Address)
	wantCode(t, "AlterClientQuotas", alterQuota(c, quota(nil, "producer_byte_rate", 1024)), protocol.None)
	eventually(t, "it is described", func() bool {
		got := describeQuotas(c, nil)
		return len(got) == 1 && got["producer_byte_rate"] == 1024
	})
}
