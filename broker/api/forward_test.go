package api

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// controller answers what is forwarded to it.
type controller struct {
	takes  time.Duration
	err    error
	answer func() kmsg.Response
}

func (c *controller) Forward(ctx context.Context, _ *controllerclient.Forwarded) (kmsg.Response, error) {
	timer := time.NewTimer(c.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: nobody there", protocol.ErrRequestTimedOut)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.answer(), nil
}

// expectations notes what is waited for, and lets it come after a while.
type expectations struct {
	takes time.Duration

	mu     sync.Mutex
	events []string
}

func (e *expectations) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, fmt.Sprintf(format, args...))
}

func (e *expectations) expect(appear bool, names []string) Expectation {
	e.note("expect %v %v", appear, names)
	return e
}

func (e *expectations) Wait(ctx context.Context, names []string) error {
	e.note("wait %v", names)
	timer := time.NewTimer(e.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *expectations) Close() { e.note("close") }

func createTopicsRequest(timeout int32, names ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = timeout
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func createdTopics(results ...any) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = 7
	for i := 0; i < len(results); i += 2 {
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = results[i].(string), int16(results[i+1].(protocol.Error))
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func deletedTopics(results ...any) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Version = 6
	for i := 0; i < len(results); i += 2 {
		name := results[i].(string)
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = &name, int16(results[i+1].(protocol.Error))
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// A creation is answered when this broker serves what was created, a deletion
// when it does not any more, and both when the client's time is up.
func TestTopicChangesAreAwaited(t *testing.T) {
	const ok, exists = protocol.None, protocol.ErrTopicAlreadyExists
	id := [16]byte{4}
	name := "a"
	byID := kmsg.NewPtrDeleteTopicsRequest()
	byID.Version, byID.TimeoutMillis = 6, 5000
	byID.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}, {Topic: &name}}
	byName := kmsg.NewPtrDeleteTopicsRequest()
	byName.Version, byName.TimeoutMillis, byName.TopicNames = 5, 5000, []string{"a", "none"}
	validateOnly := createTopicsRequest(5000, "a")
	validateOnly.ValidateOnly = true

	for _, test := range []struct {
		name   string
		req    kmsg.Request
		answer kmsg.Response
		slow   time.Duration // how long this broker needs
		want   string
		took   time.Duration
	}{
		{"created", createTopicsRequest(5000, "a", "b"), createdTopics("a", ok, "b", exists), 10 * time.Millisecond, "[expect true [a b] wait [a] close]", 12 * time.Millisecond},
		{"slow broker", createTopicsRequest(5000, "a"), createdTopics("a", ok), time.Hour, "[expect true [a] wait [a] close]", 5 * time.Second},
		{"no time", createTopicsRequest(0, "a"), createdTopics("a", ok), time.Hour, "[expect true [a] close]", 2 * time.Millisecond},
		{"negative time", createTopicsRequest(-1, "a"), createdTopics("a", ok), time.Hour, "[expect true [a] close]", 2 * time.Millisecond},
		{"validated", validateOnly, createdTopics("a", ok), time.Hour, "[]", 2 * time.Millisecond},
		{"none", createTopicsRequest(5000), createdTopics(), time.Hour, "[]", 2 * time.Millisecond},
		{"deleted by name", byName, deletedTopics("a", ok, "none", protocol.ErrUnknownTopicOrPartition), 10 * time.Millisecond, "[expect false [a none] wait [a] close]", 12 * time.Millisecond},
		{"deleted by id", byID, deletedTopics("four", ok, "a", ok), 10 * time.Millisecond, "[expect false [four a] wait [four a] close]", 12 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &expectations{takes: test.slow}
			img := parseImage(t, "topic four id=4\ntopic a id=1")
			a := &Admin{
				Image: imageFunc(img), Log: zerolog.Nop(), ExpectTopics: e.expect,
				Forward: &controller{takes: 2 * time.Millisecond, answer: func() kmsg.Response { return test.answer }},
			}
			handle := a.createTopics
			if test.req.Key() == int16(kmsg.DeleteTopics) {
				handle = a.deleteTopics
			}
			begin := time.Now()
			if resp := ask(t.Context(), handle, test.req); resp != test.answer {
				t.Errorf("%s: got %v, want the controller's answer", test.name, resp)
			}
			if took := time.Since(begin); took != test.took {
				t.Errorf("%s: took %v, want %v", test.name, took, test.took)
			}
			if got := fmt.Sprint(e.events); got != test.want {
				t.Errorf("%s: got %s, want %s", test.name, got, test.want)
			}
		})
	}
}

// A node that stops closes the connection of who waits for the controller: what
// becomes of the request is not known, and no code says that.
func TestForwardingEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Admin{Image: imageFunc(metadata.Empty()), Log: zerolog.Nop(), Forward: &controller{takes: time.Hour}}
		ofTopic := kmsg.NewIncrementalAlterConfigsRequestResource()
		ofTopic.ResourceType, ofTopic.ResourceName = kmsg.ConfigResourceTypeTopic, "a"
		configs := kmsg.NewPtrIncrementalAlterConfigsRequest()
		configs.Resources = append(configs.Resources, ofTopic)
		for _, test := range []struct {
			handler func(context.Context, *server.Request) server.Answer
			body    kmsg.Request
		}{
			{a.createTopics, createTopicsRequest(3000, "a")},
			{a.incrementalAlterConfigs, configs},
		} {
			answer := test.handler(t.Context(), &server.Request{
				Key: test.body.Key(), Version: test.body.GetVersion(), Body: test.body, Received: time.Now(),
				Conn: &server.Conn{Listener: "PLAINTEXT", Principal: server.Anonymous, RemoteAddr: &net.TCPAddr{}},
			})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(minForward/2, cancel)
			for answer.Wait != nil {
				answer = answer.Wait(ctx)
			}
			if answer.Close == nil || answer.Response != nil {
				t.Errorf("%s: answer is %+v, want the end of the connection", kmsg.NameForKey(test.body.Key()), answer)
			}
		}
	})
}

// Without a controller every topic gets the reason, in time.
func TestForwardingFails(t *testing.T) {
	id := [16]byte{4}
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.Version, deletion.TimeoutMillis = 6, 3000
	deletion.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Version = 2
	for _, test := range []struct {
		name string
		req  kmsg.Request
		code func(kmsg.Response) int16
		want protocol.Error
		took time.Duration
	}{
		{"create", createTopicsRequest(3000, "a"), func(r kmsg.Response) int16 { return r.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode }, protocol.ErrRequestTimedOut, 3 * time.Second},
		{"create at once", createTopicsRequest(0, "a"), func(r kmsg.Response) int16 { return r.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode }, protocol.ErrRequestTimedOut, time.Second},
		{"delete", deletion, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode }, protocol.ErrRequestTimedOut, 3 * time.Second},
		{"quorum", quorum, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeQuorumResponse).ErrorCode }, protocol.ErrRequestTimedOut, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &Admin{
				Image: imageFunc(metadata.Empty()), Log: zerolog.Nop(), Forward: &controller{takes: time.Hour},
				RequestTimeout: 20 * time.Second,
			}
			for _, served := range a.APIs() {
				if served.Key != test.req.Key() {
					continue
				}
				begin := time.Now()
				resp := ask(t.Context(), served.Handle, test.req)
				if code := protocol.Error(test.code(resp)); code != test.want {
					t.Errorf("%s: got %v, want %v", test.name, code, test.want)
				}
				if took := time.Since(begin); took != test.took {
					t.Errorf("%s: took %v, want %v", test.name, took, test.took)
				}
				if resp.GetVersion() != test.req.GetVersion() {
					t.Errorf("%s: answer in version %d", test.name, resp.GetVersion())
				}
			}
		})
	}
}
