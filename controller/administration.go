package controller

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// What administrators change apart from topics. As with topics, the records of a
// request are kept all or none.

// IncrementalAlterConfigs changes single configs of resources.
func (c *Controller) IncrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.IncrementalAlterConfigsResponse]] {
	return change(c, req, "IncrementalAlterConfigs", by, deadline, func(o *office) ([]record.Record, *kmsg.IncrementalAlterConfigsResponse) {
		return decide.IncrementalAlterConfigs(o.pending, req, c.cfg.Env)
	})
}

// AlterConfigs replaces the configs of resources.
func (c *Controller) AlterConfigs(req *kmsg.AlterConfigsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.AlterConfigsResponse]] {
	return change(c, req, "AlterConfigs", by, deadline, func(o *office) ([]record.Record, *kmsg.AlterConfigsResponse) {
		return decide.AlterConfigs(o.pending, req, c.cfg.Env)
	})
}

// UpdateFeatures finalizes levels of features.
func (c *Controller) UpdateFeatures(req *kmsg.UpdateFeaturesRequest, by string, deadline time.Time) *Pending[Change[*kmsg.UpdateFeaturesResponse]] {
	p := newPending(req, "UpdateFeatures", by, deadline, func(o *office, answer *Change[*kmsg.UpdateFeaturesResponse]) (decision, error) {
		env := c.cfg.Env
		var control []record.Control
		if v := c.cfg.Voters; v != nil {
			env.KRaftVersion = v.Quorum().Version
		}
		if decide.RaisesKRaft(req, env) {
			control, env.KRaftUpgrade = c.cfg.Voters.dynamic(o.pending)
		}
		records, resp := decide.UpdateFeatures(o.pending, req, env)
		answer.Response, answer.Offset = resp, -1
		if resp.ErrorCode != 0 {
			control = nil
		}
		return decision{records: records, control: control, then: func(_, last int64) { answer.Offset = last }}, nil
	})
	p.op.atomic = true
	c.submit(p.op)
	return p
}

// AlterClientQuotas sets and removes quotas.
func (c *Controller) AlterClientQuotas(req *kmsg.AlterClientQuotasRequest, by string, deadline time.Time) *Pending[Change[*kmsg.AlterClientQuotasResponse]] {
	return change(c, req, "AlterClientQuotas", by, deadline, func(o *office) ([]record.Record, *kmsg.AlterClientQuotasResponse) {
		return decide.AlterClientQuotas(o.pending, req)
	})
}

// AlterUserScramCredentials sets and deletes SCRAM credentials.
func (c *Controller) AlterUserScramCredentials(req *kmsg.AlterUserSCRAMCredentialsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.AlterUserSCRAMCredentialsResponse]] {
	return change(c, req, "AlterUserScramCredentials", by, deadline, func(o *office) ([]record.Record, *kmsg.AlterUserSCRAMCredentialsResponse) {
		return decide.AlterUserScramCredentials(o.pending, req)
	})
}

// CreateACLs stores ACLs.
func (c *Controller) CreateACLs(req *kmsg.CreateACLsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.CreateACLsResponse]] {
	return change(c, req, "CreateAcls", by, deadline, func(o *office) ([]record.Record, *kmsg.CreateACLsResponse) {
		return decide.CreateACLs(o.pending, req, c.cfg.Env)
	})
}

// DeleteACLs deletes the ACLs that filters mean.
func (c *Controller) DeleteACLs(req *kmsg.DeleteACLsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.DeleteACLsResponse]] {
	return change(c, req, "DeleteAcls", by, deadline, func(o *office) ([]record.Record, *kmsg.DeleteACLsResponse) {
		return decide.DeleteACLs(o.pending, req, c.cfg.Env)
	})
}

// UnregisterController removes a controller's registration.
func (c *Controller) UnregisterController(id protocol.NodeID, by string, deadline time.Time) *Pending[struct{}] {
	p := newPending(nil, "UnregisterController", by, deadline, func(o *office, _ *struct{}) (decision, error) {
		records, err := decide.UnregisterController(o.pending, id, c.cfg.Env)
		return decision{records: records}, err
	})
	c.submit(p.op)
	return p
}
