package controller

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Each operation queues a request at once and returns its Pending answer. A
// request is not modified and must not be afterwards. Of an administrator's, by is
// the principal, for the records to name.

// RegisterBroker registers a broker; the answer is its epoch.
func (c *Controller) RegisterBroker(req *kmsg.BrokerRegistrationRequest, deadline time.Time) *Pending[protocol.BrokerEpoch] {
	id := protocol.NodeID(req.BrokerID)
	var leaving decide.Leaving
	p := newPending(req, "BrokerRegistration", "", deadline, func(o *office, epoch *protocol.BrokerEpoch) (decision, error) {
		now := time.Now()
		records, e, err := decide.RegisterBroker(o.pending, req, o.sessions.alive(id, now), c.cfg.Env, &leaving)
		if err != nil || e < 0 {
			return decision{records: records, more: err == nil}, err
		}
		*epoch = e
		return decision{records: records, then: func(first, last int64) {
			o.sessions.registered(id, last, int64(e) == first, now)
			c.logger.Info().Int32("broker", int32(id)).Int64("broker_epoch", int64(e)).Msg("registered broker")
		}}, nil
	})
	c.submit(p.op)
	return p
}

// Heartbeat renews a broker's session and changes its state as it asks for.
func (c *Controller) Heartbeat(req *kmsg.BrokerHeartbeatRequest, deadline time.Time) *Pending[*kmsg.BrokerHeartbeatResponse] {
	id := protocol.NodeID(req.BrokerID)
	var p *Pending[*kmsg.BrokerHeartbeatResponse]
	// It weighs nothing: large requests that wait must not make a broker silent.
	p = newPending(nil, "BrokerHeartbeat", "", deadline, func(o *office, resp **kmsg.BrokerHeartbeatResponse) (decision, error) {
		return c.heartbeat(o, req, p.op.received, resp)
	})
	p.op.heartbeatOf = life{id, protocol.BrokerEpoch(req.BrokerEpoch)}
	// A heartbeat that is too late for a decision still says that the broker lives.
	p.op.tooLate = func(o *office) {
		if b, ok := o.pending.Broker(id); ok && int64(b.Epoch) == req.BrokerEpoch {
			o.sessions.touch(id, p.op.received)
		}
	}
	c.submit(p.op)
	return p
}

func (c *Controller) heartbeat(o *office, req *kmsg.BrokerHeartbeatRequest, received time.Time, resp **kmsg.BrokerHeartbeatResponse) (decision, error) {
	id := protocol.NodeID(req.BrokerID)
	var progress decide.Progress
	if known, ok := o.sessions.of[id]; ok {
		progress = known.progress
	}
	records, r, err := decide.Heartbeat(o.pending, req, progress, c.cfg.Env)
	if err != nil {
		return decision{}, err
	}
	*resp = r
	session := o.sessions.touch(id, received)
	before, _ := o.pending.Broker(id)
	return decision{records: records, then: func(_, last int64) {
		after, _ := o.pending.Broker(id)
		if after.InControlledShutdown && !after.Fenced {
			session.progress.ShutDown = last
		}
		if before.Fenced && !after.Fenced {
			o.soon(electLeaderless) // they may be too many for this op
		}
		if before.Fenced != after.Fenced || before.InControlledShutdown != after.InControlledShutdown {
			c.logger.Info().Int32("broker", int32(id)).Bool("fenced", after.Fenced).
				Bool("shutting_down", after.InControlledShutdown).Msg("broker changed state")
		}
		if n := len(before.LogDirs) - len(after.LogDirs); n > 0 {
			c.logger.Warn().Int32("broker", int32(id)).Int("lost", n).Int("left", len(after.LogDirs)).Msg("broker has lost log directories")
		}
	}}, nil
}

// AssignReplicasToDirs takes a broker's word for the directories of its replicas.
func (c *Controller) AssignReplicasToDirs(req *kmsg.AssignReplicasToDirsRequest, deadline time.Time) *Pending[*kmsg.AssignReplicasToDirsResponse] {
	p := newPending(req, "AssignReplicasToDirs", "", deadline, func(o *office, resp **kmsg.AssignReplicasToDirsResponse) (decision, error) {
		records, r, err := decide.AssignReplicasToDirs(o.pending, req, c.cfg.Env)
		*resp = r
		return decision{records: records}, err
	})
	c.submit(p.op)
	return p
}

// UnregisterBroker removes a broker's registration.
func (c *Controller) UnregisterBroker(id protocol.NodeID, by string, deadline time.Time) *Pending[struct{}] {
	var leaving decide.Leaving
	p := newPending(nil, "UnregisterBroker", by, deadline, func(o *office, _ *struct{}) (decision, error) {
		records, more, err := decide.UnregisterBroker(o.pending, id, c.cfg.Env, &leaving)
		return decision{records: records, more: more, then: func(_, _ int64) {
			if !more {
				delete(o.sessions.of, id)
			}
		}}, err
	})
	c.submit(p.op)
	return p
}

// RegisterController registers a controller.
func (c *Controller) RegisterController(req *kmsg.ControllerRegistrationRequest, deadline time.Time) *Pending[struct{}] {
	p := newPending(req, "ControllerRegistration", "", deadline, func(o *office, _ *struct{}) (decision, error) {
		records, err := decide.RegisterController(o.pending, req)
		return decision{records: records}, err
	})
	c.submit(p.op)
	return p
}

// AllocateProducerIDs hands out a block of producer ids.
func (c *Controller) AllocateProducerIDs(req *kmsg.AllocateProducerIDsRequest, deadline time.Time) *Pending[*kmsg.AllocateProducerIDsResponse] {
	p := newPending(nil, "AllocateProducerIds", "", deadline, func(o *office, resp **kmsg.AllocateProducerIDsResponse) (decision, error) {
		records, r, err := decide.AllocateProducerIDs(o.pending, req)
		*resp = r
		return decision{records: records}, err
	})
	c.submit(p.op)
	return p
}

// Change is the answer to a change that a client asked for.
type Change[R any] struct {
	Response R
	// Offset is the last record of the change, −1 where there is none: who has
	// replayed it knows the change.
	Offset int64
}

// CreateTopics creates topics, all of the request or none.
func (c *Controller) CreateTopics(req *kmsg.CreateTopicsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.CreateTopicsResponse]] {
	return change(c, req, "CreateTopics", by, deadline, func(o *office) ([]record.Record, *kmsg.CreateTopicsResponse) {
		return decide.CreateTopics(o.pending, req, c.cfg.Env)
	})
}

// DeleteTopics deletes topics, all of the request or none.
func (c *Controller) DeleteTopics(req *kmsg.DeleteTopicsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.DeleteTopicsResponse]] {
	return change(c, req, "DeleteTopics", by, deadline, func(o *office) ([]record.Record, *kmsg.DeleteTopicsResponse) {
		return decide.DeleteTopics(o.pending, req, c.cfg.Env)
	})
}

// CreatePartitions adds partitions to topics, all of the request or none.
func (c *Controller) CreatePartitions(req *kmsg.CreatePartitionsRequest, by string, deadline time.Time) *Pending[Change[*kmsg.CreatePartitionsResponse]] {
	return change(c, req, "CreatePartitions", by, deadline, func(o *office) ([]record.Record, *kmsg.CreatePartitionsResponse) {
		return decide.CreatePartitions(o.pending, req, c.cfg.Env)
	})
}

func change[R any](c *Controller, req kmsg.Request, name, by string, deadline time.Time, run func(o *office) ([]record.Record, R)) *Pending[Change[R]] {
	p := newPending(req, name, by, deadline, func(o *office, answer *Change[R]) (decision, error) {
		records, resp := run(o)
		answer.Response, answer.Offset = resp, -1
		return decision{records: records, then: func(_, last int64) { answer.Offset = last }}, nil
	})
	p.op.atomic = true
	c.submit(p.op)
	return p
}
