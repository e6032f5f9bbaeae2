package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

func (h *handlers) deleteTopics(c call) answer {
	req := c.body.(*kmsg.DeleteTopicsRequest)
	pending := h.Controller.DeleteTopics(req, c.caller.principal, c.deadline(req.TimeoutMillis))
	return func(ctx context.Context) (kmsg.Response, error) {
		topics, err := pending.Wait(ctx)
		if err != nil {
			return h.deleteTopicsFailed(req, err), err
		}
		if topics.Offset >= 0 {
			h.changed(c, "topics deleted")
		}
		return topics.Response, nil
	}
}

func (h *handlers) deleteTopicsFailed(req *kmsg.DeleteTopicsRequest, err error) *kmsg.DeleteTopicsResponse {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	code := h.code(err, kmsg.DeleteTopics)
	add := func(name *string, id [16]byte) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = name, id, code, protocol.MessageOf(err)
		resp.Topics = append(resp.Topics, t)
	}
	for i := range req.TopicNames {
		add(&req.TopicNames[i], [16]byte{})
	}
	for i := range req.Topics {
		add(req.Topics[i].Topic, req.Topics[i].TopicID)
	}
	return resp
}
