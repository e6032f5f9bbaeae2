package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) createTopics(c call) answer {
	req := c.body.(*kmsg.CreateTopicsRequest)
	deadline := c.deadline(req.TimeoutMillis)
	pending := h.Controller.CreateTopics(req, deadline)
	return func(ctx context.Context) (kmsg.Response, error) {
		topics, err := pending.Wait(ctx)
		if err != nil {
			return h.createTopicsFailed(req, err), err
		}
		if topics.Offset < 0 {
			return topics.Response, nil
		}
		h.changed(c, "topics created")
		if h.Applied != nil {
			// The topics exist: who is not served in time finds them soon.
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			_ = h.Applied(ctx, topics.Offset)
		}
		return topics.Response, nil
	}
}

// createTopicsFailed answers every topic with the error of the whole request;
// there is no other place for it.
func (h *handlers) createTopicsFailed(req *kmsg.CreateTopicsRequest, err error) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	code := h.code(err, kmsg.CreateTopics)
	for i := range req.Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = req.Topics[i].Topic, code, protocol.MessageOf(err)
		t.NumPartitions, t.ReplicationFactor = -1, -1
		t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
