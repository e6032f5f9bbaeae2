package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol/server"
)

// electLeaders has the controller elect leaders.
func (a *Admin) electLeaders(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ElectLeadersRequest)
	topics := body.Topics
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrElectLeadersResponse()
		resp.ErrorCode = code
		for i := range topics {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = topics[i].Topic
			for _, id := range topics[i].Partitions {
				p := kmsg.NewElectLeadersResponseTopicPartition()
				p.Partition, p.ErrorCode, p.ErrorMessage = id, code, message
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
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}

// listPartitionReassignments has the controller tell what is on its way.
func (a *Admin) listPartitionReassignments(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ListPartitionReassignmentsRequest)
	return a.forward(req, time.Duration(body.TimeoutMillis)*time.Millisecond, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	})
}
