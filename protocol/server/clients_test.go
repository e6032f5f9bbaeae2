package server

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// awaitNobody waits until no connection is left, and no more goroutines than so
// many: some that were counted at the start may have been an earlier test's last.
func awaitNobody(t *testing.T, s *Server, most int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > most || s.Connections() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d connections are left, %d goroutines, %d at the start\n%s",
				s.Connections(), runtime.NumGoroutine(), most, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// large answers every request with that many bytes.
func large(n int) Handler {
	return func(context.Context, *Request) Answer {
		resp := kmsg.NewPtrMetadataResponse()
		name := string(make([]byte, n))
		resp.ClusterID = &name
		return Answer{Response: resp}
	}
}

// Clients that send requests by the thousand and read no answer hold next to
// nothing here, and nobody up; once they are gone, nothing is left of them.
func TestPipelinesThatNobodyReads(t *testing.T) {
	for name, api := range map[string]API{
		"answered at once": metadata(large(16 << 10)),
		"answered later": metadata(func(ctx context.Context, req *Request) Answer {
			return Answer{Wait: func(ctx context.Context) Answer { return large(16<<10)(ctx, req) }}
		}),
		"running ahead": produce(func(ctx context.Context, _ *Request) Answer {
			return Answer{Wait: func(context.Context) Answer { return Answer{Response: &kmsg.ProduceResponse{}} }}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := start(t, Config{}, api, listGroups(empty))
			goroutines, before := runtime.NumGoroutine(), heap()
			req := metadataRequest()
			if api.Key == 0 {
				req = produceRequest()
			}
			var pipeline []byte
			for id := range int32(10_000) {
				pipeline = append(pipeline, encode(id, req)...)
			}
			const clients = 20
			var all []net.Conn
			for range clients {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, nc)
				// Until the sockets' buffers are full.
				_ = nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				_, _ = nc.Write(pipeline)
			}
			other := connect(t, addr)
			other.send(1, listGroupsRequest())
			other.expect(1)
			// Of 160 MB that each has asked for.
			if grown := heap() - before - int64(len(pipeline)); grown > clients*(2<<20) {
				t.Errorf("%d clients hold %d KiB", clients, grown>>10)
			}
			_ = other.Close()
			for _, nc := range all {
				_ = nc.Close()
			}
			awaitNobody(t, s, goroutines)
		})
	}
}

// A connection for every request leaves nothing behind.
func TestConnectionPerRequest(t *testing.T) {
	s, addr := start(t, Config{}, metadata(empty), produce(func(ctx context.Context, req *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer { return empty(ctx, req) }}
	}))
	goroutines, before := runtime.NumGoroutine(), heap()
	for i := range 1000 {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, nc)
		_ = nc.(*net.TCPConn).SetLinger(0) // no port stays in use
		if i%2 == 0 {
			p.send(1, metadataRequest())
		} else {
			p.send(1, produceRequest())
		}
		if i%3 > 0 { // else it does not wait for the answer
			p.expect(1)
		}
		_ = nc.Close()
	}
	awaitNobody(t, s, goroutines)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d KiB are left", grown>>10)
	}
}

// Who sends a byte now and then does not hold a connection for longer than a
// frame may take, wherever in the frame that is.
func TestSlowSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		s, stop := serveOn(t, Config{FrameTimeout: 30 * time.Second}, ln, metadata(empty), produce(empty))
		defer stop()
		big := kmsg.NewPtrProduceRequest()
		big.Version = 9
		big.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 100<<10)}}}}
		for _, req := range []kmsg.Request{metadataRequest(), big} {
			p, began := ln.connect(t), time.Now()
			for _, b := range encode(1, req) {
				time.Sleep(5 * time.Second)
				if _, err := p.Write([]byte{b}); err != nil {
					break
				}
			}
			if d := time.Since(began); d > 75*time.Second { // once for the size, once for the rest
				t.Errorf("%s: closed after %v", kmsg.NameForKey(req.Key()), d)
			}
			if n := s.Connections(); n != 0 {
				t.Errorf("%d connections are open", n)
			}
			_ = p.Close()
		}
	})
}

// A slow reader gets its whole answer, as long as it takes flushSize bytes within
// each write timeout.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		_, stop := serveOn(t, Config{WriteTimeout: time.Minute}, ln, produce(func(context.Context, *Request) Answer {
			return Answer{Parts: []Part{{Bytes: make([]byte, 4*flushSize)}}}
		}))
		defer stop()
		p := ln.connect(t)
		p.send(1, produceRequest())
		began, got, buf := time.Now(), 0, make([]byte, flushSize/50)
		for got < 4*flushSize {
			time.Sleep(time.Second)
			n, err := p.Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
		}
		if d := time.Since(began); d < 2*time.Minute {
			t.Errorf("took only %v", d)
		}
	})
}
