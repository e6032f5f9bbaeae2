package controller

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/record"
)

// Who holds the replicas of partitions, who of them is in sync, and who leads.

// AlterPartition takes a broker's word for the ISRs of the partitions that it
// leads.
func (c *Controller) AlterPartition(req *kmsg.AlterPartitionRequest, deadline time.Time) *Pending[*kmsg.AlterPartitionResponse] {
	p := newPending(req, "AlterPartition", "", deadline, func(o *office, resp **kmsg.AlterPartitionResponse) (decision, error) {
		records, r, err := decide.AlterPartition(o.pending, req, c.cfg.Env)
		*resp = r
		return decision{records: records}, err
	})
	c.submit(p.op)
	return p
}

// ElectLeaders elects leaders that an administrator asks for. The records of the
// request need not be atomic.
func (c *Controller) ElectLeaders(req *kmsg.ElectLeadersRequest, by string, deadline time.Time) *Pending[Change[*kmsg.ElectLeadersResponse]] {
	p := newPending(req, "ElectLeaders", by, deadline, func(o *office, answer *Change[*kmsg.ElectLeadersResponse]) (decision, error) {
		records, resp, err := decide.ElectLeaders(o.pending, req, c.cfg.Env)
		answer.Response, answer.Offset = resp, -1
		return decision{records: records, then: func(_, last int64) { answer.Offset = last }}, err
	})
	c.submit(p.op)
	return p
}

// AlterPartitionReassignments moves partitions to other brokers, or cancels their
// moves.
func (c *Controller) AlterPartitionReassignments(req *kmsg.AlterPartitionAssignmentsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.AlterPartitionAssignmentsResponse]] {
	return change(c, req, "AlterPartitionReassignments", by, deadline, func(o *office) ([]record.Record, *kmsg.AlterPartitionAssignmentsResponse) {
		return decide.AlterPartitionReassignments(o.pending, req, c.cfg.Env)
	})
}

// ListPartitionReassignments tells which partitions are on their way.
func (c *Controller) ListPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest, deadline time.Time) *Pending[*kmsg.ListPartitionReassignmentsResponse] {
	p := newPending(req, "ListPartitionReassignments", "", deadline, func(o *office, resp **kmsg.ListPartitionReassignmentsResponse) (decision, error) {
		*resp = decide.ListPartitionReassignments(o.pending, req)
		return decision{}, nil
	})
	c.submit(p.op)
	return p
}
