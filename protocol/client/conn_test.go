package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/protocol/server"
)

// serve runs a server of the APIs, and ApiVersions, until the test ends.
func serve(t testing.TB, apis ...server.API) string {
	t.Helper()
	apis = append(apis, server.API{Key: 18, Min: 0, Max: 5, Handle: func(_ context.Context, req *server.Request) server.Answer {
		resp := kmsg.NewPtrApiVersionsResponse()
		for _, r := range req.Conn.Served() {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MinVersion, k.MaxVersion = r.Key, r.Min, r.Max
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return server.Answer{Response: resp}
	}})
	s, err := server.New(server.Config{Listener: "TEST"}, apis, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(ctx, ln) })
	t.Cleanup(func() { cancel(); served.Wait() })
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), addr, client.Config{ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echoGroup answers FindCoordinator with the key as host.
func echoGroup(_ context.Context, req *server.Request) server.Answer {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Host = req.Body.(*kmsg.FindCoordinatorRequest).CoordinatorKey
	return server.Answer{Response: resp}
}

func TestConcurrentRequests(t *testing.T) {
	c := dial(t, serve(t, server.API{Key: 10, Min: 0, Max: 3, Handle: echoGroup}))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey = string(rune('a' + i%26))
			resp, err := c.Request(t.Context(), req)
			if err != nil {
				t.Error(err)
			} else if got := resp.(*kmsg.FindCoordinatorResponse); got.Host != req.CoordinatorKey || got.Version != 3 {
				t.Errorf("asked for %q, got %q in version %d", req.CoordinatorKey, got.Host, got.Version)
			}
		})
	}
	all.Wait()
}

func TestNoCommonVersion(t *testing.T) {
	c := dial(t, serve(t))
	_, err := c.Request(t.Context(), kmsg.NewPtrMetadataRequest())
	if !errors.Is(err, protocol.ErrUnsupportedVersion) {
		t.Fatalf("error %v", err)
	}
}

// A request whose context ends returns at once; the connection goes on.
func TestContextEnds(t *testing.T) {
	release := make(chan struct{})
	park := func(context.Context, *server.Request) server.Answer {
		return server.Answer{Wait: func(context.Context) server.Answer {
			<-release
			return server.Answer{Response: kmsg.NewPtrListGroupsResponse()}
		}}
	}
	c := dial(t, serve(t,
		server.API{Key: 16, Min: 0, Max: 5, Handle: park}, server.API{Key: 10, Min: 0, Max: 3, Handle: echoGroup}))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := c.Request(ctx, kmsg.NewPtrListGroupsRequest())
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	close(release)
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = "x"
	if _, err := c.Request(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// A peer that hangs up fails the requests that wait, and Done tells.
func TestPeerHangsUp(t *testing.T) {
	c := dial(t, serve(t, server.API{Key: 16, Min: 0, Max: 5, Handle: func(context.Context, *server.Request) server.Answer {
		return server.Answer{Close: errors.New("enough")}
	}}))
	if _, err := c.Request(t.Context(), kmsg.NewPtrListGroupsRequest()); err == nil {
		t.Fatal("no error")
	}
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done is not closed")
	}
	if _, err := c.Request(t.Context(), kmsg.NewPtrListGroupsRequest()); err == nil || errors.Is(err, client.ErrClosed) {
		t.Fatalf("error %v", err)
	}
}

// foreign runs a peer that answers ApiVersions rightly and then with bytes.
func foreign(t *testing.T, answer []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf := make([]byte, 4096)
		_, _ = nc.Read(buf)
		_, _ = nc.Write([]byte{
			0, 0, 0, 19, 0, 0, 0, 1, 0, 0, 2, 0, 16, 0, 0, 0, 5, 0, // ListGroups 0 to 5
			0, 0, 0, 0, 0,
		})
		_, _ = nc.Read(buf)
		_, _ = nc.Write(answer)
		_, _ = nc.Read(buf)
	}()
	return ln.Addr().String()
}

func TestForeignAnswers(t *testing.T) {
	for name, answer := range map[string][]byte{
		"huge":      {0x7f, 0xff, 0xff, 0xff},
		"negative":  {0xff, 0xff, 0xff, 0xff},
		"no header": {0, 0, 0, 2, 0, 0},
		"wrong id":  {0, 0, 0, 4, 0, 0, 0, 9},
		"twice":     {0, 0, 0, 15, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		"cut body":  {0, 0, 0, 6, 0, 0, 0, 2, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, foreign(t, answer))
			if _, err := c.Request(t.Context(), kmsg.NewPtrListGroupsRequest()); err == nil && name != "twice" {
				t.Fatal("no error")
			}
			select {
			case <-c.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the connection goes on")
			}
		})
	}
}
