package server

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// When the client hangs up the context of its parked answers ends, and every
// Wait is called, those that had not begun too.
func TestClientHangsUp(t *testing.T) {
	ended := make(chan error, 3)
	_, addr := start(t, Config{}, produce(func(context.Context, *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer {
			<-ctx.Done()
			ended <- ctx.Err()
			return Answer{None: true}
		}}
	}))
	p := connect(t, addr)
	for id := range int32(3) {
		p.send(id, produceRequest())
	}
	_ = p.Close()
	for range 3 {
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a Wait was not called, or its context did not end")
		}
	}
}

// A client that shuts down its side gets the answers that are complete.
func TestHalfClosed(t *testing.T) {
	_, addr := start(t, Config{}, metadata(empty))
	p := connect(t, addr)
	p.send(1, metadataRequest())
	p.send(2, metadataRequest())
	_ = p.Conn.(*net.TCPConn).CloseWrite()
	p.expect(1)
	p.expect(2)
	p.expectClosed()
}

// Stopping ends parked answers and writes them; requests that were not begun
// are dropped; Serve returns when all is over.
func TestStop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	parked := make(chan struct{})
	s, stop := serveOn(t, Config{}, ln, produce(func(_ context.Context, req *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer {
			if req.CorrelationID == 1 {
				close(parked)
			}
			<-ctx.Done()
			time.Sleep(20 * time.Millisecond) // the reader has ended before
			return Answer{Response: req.Body.ResponseKind()}
		}}
	}), metadata(empty))
	p, idle := connect(t, ln.Addr().String()), connect(t, ln.Addr().String())
	p.send(1, produceRequest())
	<-parked
	p.send(2, produceRequest())
	time.Sleep(20 * time.Millisecond)
	stop()
	p.expect(1)
	p.expect(2)
	p.expectClosed()
	idle.expectClosed()
	if n := s.Connections(); n != 0 {
		t.Errorf("%d connections left", n)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

// A connection that has had no answer yet when the server stops is reset, whether it
// was accepted only or has a request that is dropped: clients try again. One that had
// an answer ends in order.
func TestStopResetsWhoWasNotAnswered(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	parked := make(chan struct{})
	s, stop := serveOn(t, Config{}, ln, metadata(empty), produce(func(context.Context, *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer {
			close(parked)
			<-ctx.Done()
			return Answer{Close: errors.New("was parked")}
		}}
	}))
	fresh, waiting, answered := connect(t, ln.Addr().String()), connect(t, ln.Addr().String()), connect(t, ln.Addr().String())
	answered.send(1, metadataRequest())
	answered.expect(1)
	waiting.send(1, produceRequest())
	<-parked
	for s.Connections() < 3 {
		time.Sleep(time.Millisecond)
	}
	stop()
	for name, p := range map[string]*peer{"accepted": fresh, "waiting": waiting} {
		if _, err := p.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := answered.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("answered: %v", err)
	}
}

// A connection that starts with the preface is given away with all that
// follows it, and outlives the server.
func TestHandover(t *testing.T) {
	given := make(chan net.Conn, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Preface: []byte("\xffRAFT\n"), Handover: func(c net.Conn) { given <- c }}
	_, stop := serveOn(t, cfg, ln, metadata(empty))
	p := connect(t, ln.Addr().String())
	_, _ = p.Write([]byte("\xffRA"))
	time.Sleep(5 * time.Millisecond)
	_, _ = p.Write([]byte("FT\nhello"))
	nc := <-given
	defer nc.Close()
	stop()
	buf := make([]byte, 8)
	if _, err := io.ReadFull(nc, buf[:5]); err != nil || string(buf[:5]) != "hello" {
		t.Fatalf("%q, %v", buf, err)
	}
	_, _ = p.Write([]byte("again"))
	if _, err := io.ReadFull(nc, buf[:5]); err != nil || string(buf[:5]) != "again" {
		t.Fatalf("%q, %v", buf, err)
	}
	_, _ = nc.Write([]byte("back"))
	if _, err := io.ReadFull(p.r, buf[:4]); err != nil || string(buf[:4]) != "back" {
		t.Fatalf("%q, %v", buf, err)
	}
}

func TestNoPreface(t *testing.T) {
	cfg := Config{Preface: []byte("\xffRAFT\n"), Handover: func(net.Conn) { t.Error("given away") }}
	_, addr := start(t, cfg, metadata(empty))
	p := connect(t, addr)
	p.send(1, metadataRequest())
	p.expect(1)
	p = connect(t, addr)
	_, _ = p.Write([]byte("\xffRAFX\n"))
	p.expectClosed()
}

func TestAuthorize(t *testing.T) {
	handled := false
	cfg := Config{Authorize: func(_ context.Context, req *Request) error {
		if req.Key == 3 {
			return errors.New("not this one")
		}
		return nil
	}}
	_, addr := start(t, cfg, listGroups(empty), metadata(func(ctx context.Context, req *Request) Answer {
		handled = true
		return empty(ctx, req)
	}))
	p := connect(t, addr)
	p.send(1, listGroupsRequest())
	p.expect(1)
	p.send(2, metadataRequest())
	p.expectClosed()
	if handled {
		t.Error("handled all the same")
	}
}
