package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

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
	return a.forward(req, timeout, nil, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrCreatePartitionsResponse()
		for _, name := range names {
			t := kmsg.NewCreatePartitionsResponseTopic()
			t.Topic, t.ErrorCode, t.ErrorMessage = name, code, message
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}
