package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Produce requests are handled while earlier ones wait; all else waits for the
// answers before it. Answers keep the order of the requests.
func TestOrder(t *testing.T) {
	handled := make(chan int32, 10)
	release := make(chan struct{})
	mark := func(next Handler) Handler {
		return func(ctx context.Context, req *Request) Answer {
			handled <- req.CorrelationID
			return next(ctx, req)
		}
	}
	wait := waiting(release)
	_, addr := start(t, Config{},
		produce(mark(func(ctx context.Context, req *Request) Answer {
			if req.CorrelationID == 2 {
				return empty(ctx, req) // acks=1: complete, but not its turn
			}
			return wait(ctx, req)
		})),
		metadata(mark(empty)), listGroups(mark(wait)))
	p := connect(t, addr)
	expectHandled := func(want ...int32) {
		t.Helper()
		for _, id := range want {
			if got := <-handled; got != id {
				t.Fatalf("handled %d, want %d", got, id)
			}
		}
		select {
		case got := <-handled:
			t.Fatalf("handled %d too early", got)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for id := int32(1); id <= 3; id++ {
		p.send(id, produceRequest())
	}
	p.send(4, metadataRequest())
	p.send(5, listGroupsRequest())
	p.send(6, produceRequest())
	p.send(7, produceRequest())
	expectHandled(1, 2, 3)
	release <- struct{}{}
	p.expect(1)
	p.expect(2)
	expectHandled()
	release <- struct{}{} // 3; then 4 runs, and 5 waits
	p.expect(3)
	p.expect(4)
	expectHandled(4, 5)
	release <- struct{}{}
	p.expect(5)
	expectHandled(6, 7)
	close(release)
	p.expect(6)
	p.expect(7)
}

// No more than MaxUnanswered requests are handled ahead of their answers, but
// for the one in the reader's and the one in the writer's hand.
func TestUnansweredAreBounded(t *testing.T) {
	handled := make(chan struct{}, 100)
	release := make(chan struct{})
	_, addr := start(t, Config{MaxUnanswered: 3}, produce(func(ctx context.Context, req *Request) Answer {
		handled <- struct{}{}
		return waiting(release)(ctx, req)
	}))
	p := connect(t, addr)
	for id := range int32(20) {
		p.send(id, produceRequest())
	}
	for range 5 {
		<-handled
	}
	select {
	case <-handled:
		t.Fatal("a sixth request was handled")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	for id := range int32(20) {
		p.expect(id)
	}
}

// acks=0: no answer, and the next one is that of the next request.
func TestNone(t *testing.T) {
	_, addr := start(t, Config{}, metadata(empty), produce(func(context.Context, *Request) Answer { return Answer{None: true} }))
	p := connect(t, addr)
	p.send(1, produceRequest())
	p.send(2, metadataRequest())
	p.expect(2)
}

// An answer that closes does so behind the answers owed before it.
func TestCloseComesInOrder(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Config{}, produce(func(ctx context.Context, req *Request) Answer {
		if req.CorrelationID == 2 {
			return Answer{Close: errors.New("enough")}
		}
		return waiting(release)(ctx, req)
	}))
	p := connect(t, addr)
	for id := int32(1); id <= 3; id++ {
		p.send(id, produceRequest())
	}
	release <- struct{}{}
	p.expect(1)
	p.expectClosed()
}

// So does a frame that cannot be read: the answer that is still waited for comes first.
func TestBadFrameComesInOrder(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Config{}, metadata(waiting(release)))
	p := connect(t, addr)
	p.send(1, metadataRequest())
	p.sendHex(true, "0309 0000 00000002 ffff")
	p.send(3, metadataRequest())
	select {
	case release <- struct{}{}:
	case <-time.After(20 * time.Second):
		t.Fatal("the first request was given up")
	}
	p.expect(1)
	p.expectClosed()
}

// A Wait may end in another Wait, and its answer may be of any form.
func TestWaits(t *testing.T) {
	_, addr := start(t, Config{}, metadata(func(_ context.Context, req *Request) Answer {
		return Answer{Wait: func(context.Context) Answer {
			return Answer{Wait: func(context.Context) Answer {
				resp := req.Body.ResponseKind()
				resp.SetVersion(req.Version)
				return Answer{Parts: []Part{{Bytes: resp.AppendTo(nil)}}}
			}}
		}}
	}), listGroups(empty))
	p := connect(t, addr)
	p.send(1, metadataRequest())
	p.send(2, listGroupsRequest())
	body := p.expect(1)
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 9
	if err := resp.ReadFrom(body[1:]); err != nil {
		t.Fatal(err)
	}
	p.expect(2)
}
