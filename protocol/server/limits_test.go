package server

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipeListener accepts the far ends of pipes, whose deadlines keep a bubble's time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipeListener) connect(t testing.TB) *peer {
	near, far := net.Pipe()
	l.conns <- far
	return newPeer(t, near)
}

// closedAfter returns how long it takes until the server closes the connection.
func (p *peer) closedAfter() time.Duration {
	p.t.Helper()
	began := time.Now()
	_ = p.SetReadDeadline(time.Time{})
	if b, err := p.r.ReadByte(); err == nil {
		p.t.Fatalf("byte %x instead of the end", b)
	}
	return time.Since(began)
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		release := make(chan struct{})
		_, stop := serveOn(t, Config{IdleTimeout: time.Minute}, ln, metadata(empty), listGroups(waiting(release)))
		defer stop()
		p := ln.connect(t)
		for id := range int32(3) {
			time.Sleep(50 * time.Second) // not idle for so long, but altogether longer
			p.send(id, metadataRequest())
			p.expect(id)
		}
		p.send(9, listGroupsRequest())
		time.Sleep(10 * time.Minute) // an answer is due: not idle
		release <- struct{}{}
		p.expect(9)
		if d := p.closedAfter(); d < 59*time.Second || d > 2*time.Minute {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestFrameThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		_, stop := serveOn(t, Config{FrameTimeout: 5 * time.Second}, ln, metadata(empty))
		defer stop()
		for _, hex := range []string{"00", "00000020 0003", "00100000 0003", "00a00000 0003"} {
			p := ln.connect(t)
			p.sendHex(false, hex)
			if d := p.closedAfter(); d < 5*time.Second || d > 16*time.Second {
				t.Errorf("%s: closed after %v", hex, d)
			}
		}
	})
}

// A client that does not read its answer is closed when the write timeout is over.
func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		s, stop := serveOn(t, Config{WriteTimeout: 5 * time.Second}, ln, metadata(empty))
		defer stop()
		p := ln.connect(t)
		p.send(1, metadataRequest())
		time.Sleep(4 * time.Second)
		if s.Connections() != 1 {
			t.Error("closed too early")
		}
		time.Sleep(2 * time.Second)
		if s.Connections() != 0 {
			t.Error("still open")
		}
	})
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		cfg := Config{Throttle: func(*Request) time.Duration { return time.Second }}
		_, stop := serveOn(t, cfg, ln, metadata(empty))
		defer stop()
		p := ln.connect(t)
		began := time.Now()
		for id := range int32(3) {
			p.send(id, metadataRequest())
			p.expect(id)
		}
		if d := time.Since(began); d != 2*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// A claimed size allocates nothing that was not sent.
func TestClaimedSizeAllocatesNothing(t *testing.T) {
	s, addr := start(t, Config{}, metadata(empty))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		p := connect(t, addr)
		_, _ = p.Write(append(binary.BigEndian.AppendUint32(nil, 100<<20), make([]byte, 100)...))
	}
	p := connect(t, addr)
	_, _ = p.Write(append(binary.BigEndian.AppendUint32(nil, 100<<20), make([]byte, 2<<20)...))
	for s.Connections() < 21 {
		runtime.Gosched()
	}
	time.Sleep(50 * time.Millisecond) // let a reader that is wrong allocate
	runtime.ReadMemStats(&after)
	// 2 MiB took buffers of 1, 2 and 4 MiB; the claims, one of 17 KiB each.
	if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
		t.Errorf("%d bytes allocated", n)
	}
}

// Who finds the memory used up waits for it, and requests that fit the read
// buffer go on.
func TestMemory(t *testing.T) {
	handling, release := make(chan struct{}), make(chan struct{})
	_, addr := start(t, Config{Memory: NewMemory(4 << 20)}, metadata(empty), produce(func(ctx context.Context, req *Request) Answer {
		handling <- struct{}{}
		<-release
		return empty(ctx, req)
	}))
	large := kmsg.NewPtrProduceRequest()
	large.Version = 9
	large.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 900<<10)}}}}
	first, second, third := connect(t, addr), connect(t, addr), connect(t, addr)
	first.send(1, large)
	<-handling
	go func() { _, _ = second.Write(encode(2, large)) }()
	third.send(3, metadataRequest())
	third.expect(3)
	select {
	case <-handling:
		t.Fatal("two large requests at once")
	case <-time.After(50 * time.Millisecond):
	}
	release <- struct{}{}
	first.expect(1)
	<-handling
	release <- struct{}{}
	second.expect(2)
}

// Clients that claim large requests and send nothing of them take nothing from
// others, however many there are.
func TestStalledFramesDisturbNobody(t *testing.T) {
	s, addr := start(t, Config{Memory: NewMemory(16 << 20)}, metadata(empty), produce(empty))
	for range 30 {
		p := connect(t, addr)
		_, _ = p.Write(append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 5<<10)...))
	}
	for s.Connections() < 30 {
		runtime.Gosched()
	}
	large := kmsg.NewPtrProduceRequest()
	large.Version = 9
	large.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, 900<<10)}}}}
	p := connect(t, addr)
	for id := range int32(20) {
		p.send(id, large)
		p.expect(id)
	}
}

func TestBufferClasses(t *testing.T) {
	for n, want := range map[int]int{
		0: 5 << 10, 1: 5 << 10, 5 << 10: 5 << 10, 5<<10 + 1: 17 << 10, 17 << 10: 17 << 10, 17<<10 + 1: 65 << 10,
		257 << 10: 257 << 10, 257<<10 + 1: 1025 << 10,
		// A full batch of a producer with what a request says around it.
		16<<10 + 100: 17 << 10, 1<<20 + 100: 1025 << 10,
		1025 << 10: 1025 << 10, 1025<<10 + 1: 1025<<10 + 1,
	} {
		b := getBuffer(n)
		if len(*b) != n || cap(*b) != want {
			t.Errorf("%d: length %d, capacity %d, want %d", n, len(*b), cap(*b), want)
		}
		putBuffer(b)
	}
	grown := make([]byte, 6000)
	putBuffer(&grown)
	for range 10 { // it must not come out of the class above its capacity
		if b := getBuffer(16 << 10); cap(*b) < 16<<10 {
			t.Fatal("a buffer in the wrong class")
		}
	}
}

// The structure of a request is bounded, its records are not.
func TestStructureIsBounded(t *testing.T) {
	_, addr := start(t, Config{}, metadata(empty), produce(empty))
	topics := kmsg.NewPtrMetadataRequest()
	topics.Version = 4
	name := string(make([]byte, 30_000))
	for range maxStructure/30_000 + 1 {
		topics.Topics = append(topics.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	p := connect(t, addr)
	_, _ = p.Write(encode(1, topics))
	p.expectClosed()

	topics.Topics = topics.Topics[:100] // counted, but within bounds
	p = connect(t, addr)
	p.send(1, topics)
	p.expect(1)

	records := kmsg.NewPtrProduceRequest()
	records.Version = 9
	records.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: make([]byte, maxStructure+1)}}}}
	p.send(2, records)
	p.expect(2)
}

// What decodedPerByte says holds for the worst that was found.
func TestDecodedPerByte(t *testing.T) {
	worst := func(req kmsg.Request) float64 {
		body := req.AppendTo(nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := req.ResponseKind().RequestKind()
		got.SetVersion(req.GetVersion())
		if err := got.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(body))
	}
	const n = 100_000
	var tags kmsg.Tags
	tags.Set(0, nil)
	p := kmsg.NewPtrProduceRequest()
	p.Version = 9
	p.Topics = make([]kmsg.ProduceRequestTopic, n)
	f := kmsg.NewPtrFetchRequest()
	f.Version = 12
	f.Topics = make([]kmsg.FetchRequestTopic, n)
	o := kmsg.NewPtrOffsetFetchRequest()
	o.Version = 9
	o.Groups = make([]kmsg.OffsetFetchRequestGroup, n)
	c := kmsg.NewPtrCreateTopicsRequest()
	c.Version = 7
	c.Topics = make([]kmsg.CreateTopicsRequestTopic, n)
	d := kmsg.NewPtrFindCoordinatorRequest()
	d.Version = 6
	d.CoordinatorKeys = make([]string, n)
	for i := range n {
		p.Topics[i].UnknownTags, f.Topics[i].UnknownTags, o.Groups[i].UnknownTags, c.Topics[i].UnknownTags = tags, tags, tags, tags
	}
	for _, req := range []kmsg.Request{p, f, o, c, d} {
		if n := worst(req); n > decodedPerByte*1.25 { // the race detector adds some
			t.Errorf("%s: %.0f bytes decoded per byte", kmsg.NameForKey(req.Key()), n)
		}
	}
}
