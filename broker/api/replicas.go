package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// electLeaders has the controller elect leaders.
func (a *Admin) electLeaders(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ElectLeadersRequest)
	topics := body.Topics
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrElectLeadersResponse()
		resp.Version, resp.ErrorCode = req.Version, int16(protocol.CodeOf(err))
		for i := range topics {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = topics[i].Topic
			for _, id := range topics[i].Partitions {
				p := kmsg.NewElectLeadersResponseTopicPartition()
				p.Partition, p.ErrorCode, p.ErrorMessage = id, resp.ErrorCode, protocol.MessageOf(err)
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}

// alterPartitionReassignments has the controller move partitions.
func (a *Admin) alterPartitionReassignments(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.Version = req.Version
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return resp
	})
}

// listPartitionReassignments has the controller tell what is on its way.
func (a *Admin) listPartitionReassignments(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ListPartitionReassignmentsRequest)
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.Version = req.Version
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return resp
	})
}
