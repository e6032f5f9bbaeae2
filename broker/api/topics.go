package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol/server"
)

// createTopics has the controller create topics and answers when this broker
// serves them, or when the client's time is up: a client that was told so
// produces at once. Kafka answers earlier, and its clients then run into errors
// that they have to try again.
func (a *Admin) createTopics(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.CreateTopicsRequest)
	names := make([]string, len(body.Topics))
	for i := range body.Topics {
		names[i] = body.Topics[i].Topic
	}
	timeout := time.Duration(body.TimeoutMillis) * time.Millisecond
	expected := a.expect(true, body.ValidateOnly, names)
	return closing(expected, a.forward(req, timeout, func(ctx context.Context, resp kmsg.Response) {
		if expected == nil {
			return
		}
		var created []string
		for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if t.ErrorCode == 0 {
				created = append(created, t.Topic)
			}
		}
		a.await(ctx, expected, created)
	}, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrCreateTopicsResponse()
		for _, name := range names {
			t := kmsg.NewCreateTopicsResponseTopic()
			t.Topic = name
			t.ErrorCode, t.ErrorMessage = code, message
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}))
}

// deleteTopics has the controller delete topics and answers when this broker
// does not serve them any more, or when the client's time is up.
func (a *Admin) deleteTopics(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DeleteTopicsRequest)
	type topic struct {
		name *string
		id   [16]byte
	}
	var asked []topic // by name up to v5, by either from v6 on
	for i := range body.TopicNames {
		asked = append(asked, topic{name: &body.TopicNames[i]})
	}
	for _, t := range body.Topics {
		asked = append(asked, topic{name: t.Topic, id: t.TopicID})
	}
	img := a.Image()
	var names []string
	for _, t := range asked {
		if t.name != nil {
			names = append(names, *t.name)
		} else if known, ok := img.TopicByID(t.id); ok {
			names = append(names, known.Name)
		}
	}
	timeout := time.Duration(body.TimeoutMillis) * time.Millisecond
	expected := a.expect(false, false, names)
	return closing(expected, a.forward(req, timeout, func(ctx context.Context, resp kmsg.Response) {
		if expected == nil {
			return
		}
		var deleted []string
		for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
			if t.ErrorCode == 0 && t.Topic != nil {
				deleted = append(deleted, *t.Topic)
			}
		}
		a.await(ctx, expected, deleted)
	}, func(code int16, message *string) kmsg.Response {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for _, t := range asked {
			r := kmsg.NewDeleteTopicsResponseTopic()
			r.Topic, r.TopicID = t.name, t.id
			r.ErrorCode, r.ErrorMessage = code, message
			resp.Topics = append(resp.Topics, r)
		}
		return resp
	}))
}

// expect begins to look for topics before the controller is asked, so that
// nothing that happens in between is missed.
func (a *Admin) expect(appear, nothing bool, names []string) Expectation {
	if a.ExpectTopics == nil || nothing || len(names) == 0 {
		return nil
	}
	return a.ExpectTopics(appear, names)
}

// await waits for what was expected. That it does not come in time is no error
// of the request: the controller has done it.
func (a *Admin) await(ctx context.Context, expected Expectation, names []string) {
	if err := expected.Wait(ctx, names); err != nil {
		a.Log.Warn().Err(err).Strs("topics", names).Msg("this broker has not acted on a change of topics within the request's timeout")
	}
}

// closing ends an expectation when the answer is there.
func closing(expected Expectation, answer server.Answer) server.Answer {
	if expected == nil {
		return answer
	}
	wait := answer.Wait
	return server.Answer{Wait: func(ctx context.Context) server.Answer {
		defer expected.Close()
		return wait(ctx)
	}}
}
