package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/protocol"
)

func TestAutoCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{takes: time.Second, answer: func() kmsg.Response { return createdTopics("a", protocol.None) }}
		forwards := 0
		counting := forwarderFunc(func(ctx context.Context, f *controllerclient.Forwarded) (kmsg.Response, error) {
			forwards++
			return c.Forward(ctx, f)
		})
		auto := NewAutoCreate(1, 1, 10*time.Second, counting, zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- auto.Run(ctx) }()

		a := &Admin{Image: imageFunc(parseImage(t, "broker 1 PLAINTEXT=one:9092\ntopic there id=1")), AutoCreate: auto, Log: zerolog.Nop()}
		metadata := func(names ...string) {
			req := kmsg.NewPtrMetadataRequest()
			req.Version, req.AllowAutoTopicCreation = 9, true
			for _, name := range names {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic = &name
				req.Topics = append(req.Topics, topic)
			}
			begin := time.Now()
			ask(ctx, a.metadata, req)
			if time.Since(begin) != 0 {
				t.Error("the client waited for the creation")
			}
		}
		// One request although three clients ask; none for what is there, is
		// internal or may not exist.
		metadata("a", "there")
		metadata("a")
		metadata("a", protocol.OffsetsTopic, "b d")
		synctest.Wait()
		if forwards != 1 {
			t.Errorf("%d requests to the controller, want 1", forwards)
		}
		// Once that is over, whoever still misses the topic may ask again.
		time.Sleep(2 * time.Second)
		synctest.Wait()
		c.err = errors.New("no controller")
		metadata("a")
		time.Sleep(2 * time.Second)
		metadata("a", "b", "c")
		synctest.Wait()
		if forwards != 3 {
			t.Errorf("%d requests to the controller, want 3", forwards)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type forwarderFunc func(context.Context, *controllerclient.Forwarded) (kmsg.Response, error)

func (f forwarderFunc) Forward(ctx context.Context, w *controllerclient.Forwarded) (kmsg.Response, error) {
	return f(ctx, w)
}

func TestAutoCreateIsBounded(t *testing.T) {
	auto := NewAutoCreate(1, 1, time.Second, nil, zerolog.Nop())
	for i := range 3 * maxAutoCreations {
		auto.Add([]string{fmt.Sprint(i)}, controllerclient.Origin{})
	}
	if len(auto.known) != maxAutoCreations || len(auto.batches) != maxAutoCreations {
		t.Errorf("%d names, %d requests wait", len(auto.known), len(auto.batches))
	}
}
