package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// createPartitions has the controller add partitions to topics.
func (a *Admin) createPartitions(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.CreatePartitionsRequest)
	names := make([]string, len(body.Topics))
	for i := range body.Topics {
		names[i] = body.Topics[i].Topic
	}
	timeout := time.Duration(body.TimeoutMillis) * time.Millisecond
	return a.forward(req, timeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrCreatePartitionsResponse()
		resp.Version = req.Version
		for _, name := range names {
			t := kmsg.NewCreatePartitionsResponseTopic()
			t.Topic, t.ErrorCode, t.ErrorMessage = name, int16(protocol.CodeOf(err)), protocol.MessageOf(err)
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}

// unregisterBroker has the controller forget a broker.
func (a *Admin) unregisterBroker(_ context.Context, req *server.Request) server.Answer {
	return a.forward(req, a.RequestTimeout, nil, func(err error) kmsg.Response {
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		resp.Version = req.Version
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CodeOf(err)), protocol.MessageOf(err)
		return resp
	})
}
