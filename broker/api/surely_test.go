package api

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// TestUnknownIsMadeSure: a topic is called unknown after this broker has caught up
// with the controller, or can not; what is known is answered at once.
func TestUnknownIsMadeSure(t *testing.T) {
	before, after := parseImage(t, "broker 1 PLAINTEXT=one:9092"), parseImage(t, "broker 1 PLAINTEXT=one:9092\ntopic new id=7")
	byName := func(name string) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Version, req.Topics, req.AllowAutoTopicCreation = 9, append(req.Topics, topic), true
		return req
	}
	byID := func(string) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = uuid(t, "7")
		req.Version, req.Topics, req.AllowAutoTopicCreation = 12, append(req.Topics, topic), true
		return req
	}
	described := func(name string) kmsg.Request {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 10
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		return req
	}
	for _, tc := range []struct {
		name  string
		ask   func(string) kmsg.Request
		topic string
		fails bool // the controller
		waits bool
		known bool // at last
	}{
		{name: "by name", ask: byName, topic: "new", waits: true, known: true},
		{name: "by id", ask: byID, waits: true, known: true},
		{name: "described", ask: described, topic: "new", waits: true, known: true},
		{name: "without a controller", ask: byName, topic: "new", fails: true, waits: true},
		{name: "never created", ask: byName, topic: "other", waits: true},
		{name: "a name that is none", ask: byName, topic: "a/b"},
		{name: "described, a name that is none", ask: described, topic: "a/b"},
	} {
		img := before
		a := &Admin{
			NodeID: 1, Image: func() *metadata.Image { return img }, Static: config.FromMap(nil), Log: zerolog.Nop(),
			AutoCreate: NewAutoCreate(1, 1, 0, nil, zerolog.Nop()),
			CatchUp: func(context.Context) error {
				if tc.fails {
					return errors.New("no controller")
				}
				img = after
				return nil
			},
		}
		req := &server.Request{Body: tc.ask(tc.topic), Conn: &server.Conn{Listener: "PLAINTEXT"}}
		var answer server.Answer
		if _, ok := req.Body.(*kmsg.MetadataRequest); ok {
			answer = a.metadata(t.Context(), req)
		} else {
			answer = a.describeTopicPartitions(t.Context(), req)
		}
		waits := answer.Wait != nil
		if waits {
			if len(a.AutoCreate.batches) > 0 {
				t.Errorf("%s: it is created before that", tc.name)
			}
			answer = answer.Wait(t.Context())
		}
		var code int16
		switch resp := answer.Response.(type) {
		case *kmsg.MetadataResponse:
			code = resp.Topics[0].ErrorCode
		case *kmsg.DescribeTopicPartitionsResponse:
			code = resp.Topics[0].ErrorCode
		}
		if waits != tc.waits || (protocol.Error(code) == protocol.None) != tc.known {
			t.Errorf("%s: waits: %v, %v", tc.name, waits, protocol.Error(code))
		}
		if created := len(a.AutoCreate.batches) > 0; tc.ask(tc.topic).Key() == int16(kmsg.Metadata) && created != (tc.waits && !tc.known) {
			t.Errorf("%s: is created: %v", tc.name, created)
		}
	}
}
