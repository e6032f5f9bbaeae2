package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// start serves the APIs on TCP until the test ends.
func start(t testing.TB, cfg Config, apis ...API) (*Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := serveOn(t, cfg, ln, apis...)
	return s, ln.Addr().String()
}

// serveOn serves the APIs on ln until the test ends or stop is called.
func serveOn(t testing.TB, cfg Config, ln net.Listener, apis ...API) (s *Server, stop func()) {
	t.Helper()
	s, err := New(cfg, apis, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); served.Wait() }
	t.Cleanup(stop)
	return s, stop
}

// peer is a client that speaks in bytes.
type peer struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func connect(t testing.TB, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, nc)
}

func newPeer(t testing.TB, nc net.Conn) *peer {
	t.Cleanup(func() { _ = nc.Close() })
	return &peer{t, nc, bufio.NewReader(nc)}
}

// encode returns the frame of a request.
func encode(id int32, req kmsg.Request) []byte {
	p := protocol.AppendRequestHeader(make([]byte, 4), req.Key(), req.GetVersion(), id, "test")
	p = req.AppendTo(p)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

func (p *peer) send(id int32, req kmsg.Request) {
	p.t.Helper()
	if _, err := p.Write(encode(id, req)); err != nil {
		p.t.Fatal(err)
	}
}

// sendHex sends bytes as they are; with frame their size goes in front.
func (p *peer) sendHex(frame bool, text string) {
	p.t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		p.t.Fatal(err)
	}
	if frame {
		b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// receive reads a frame and returns its correlation id and what follows that.
func (p *peer) receive() (int32, []byte) {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(20 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(p.r, size[:]); err != nil {
		p.t.Fatalf("receive: %v", err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p.r, frame); err != nil {
		p.t.Fatalf("receive %d bytes: %v", len(frame), err)
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:]
}

// expect reads a frame and checks its correlation id.
func (p *peer) expect(id int32) []byte {
	p.t.Helper()
	got, body := p.receive()
	if got != id {
		p.t.Fatalf("answer to request %d, want %d", got, id)
	}
	return body
}

// expectClosed checks that nothing comes but the end.
func (p *peer) expectClosed() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(20 * time.Second))
	if b, err := p.r.ReadByte(); err == nil {
		p.t.Fatalf("byte %x instead of the end", b)
	} else if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		p.t.Fatal("connection is still open")
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// The APIs of the tests: the handler decides, the keys are any that fit.
func produce(h Handler) API     { return API{Key: 0, Min: 3, Max: 13, Handle: h, RunsAhead: true} }
func metadata(h Handler) API    { return API{Key: 3, Min: 0, Max: 13, Handle: h} }
func listGroups(h Handler) API  { return API{Key: 16, Min: 0, Max: 5, Handle: h} }
func apiVersions(h Handler) API { return API{Key: 18, Min: 0, Max: 5, Handle: h} }

// empty answers with an empty response of the request's kind.
func empty(_ context.Context, req *Request) Answer {
	return Answer{Response: req.Body.ResponseKind()}
}

// waiting answers as soon as something is sent on the channel.
func waiting(ch <-chan struct{}) Handler {
	return func(_ context.Context, req *Request) Answer {
		return Answer{Wait: func(ctx context.Context) Answer {
			select {
			case <-ch:
			case <-ctx.Done():
			}
			return Answer{Response: req.Body.ResponseKind()}
		}}
	}
}

func produceRequest() kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, -1
	return req
}

func metadataRequest() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	return req
}

func listGroupsRequest() kmsg.Request {
	req := kmsg.NewPtrListGroupsRequest()
	req.Version = 4
	return req
}

func TestAPIsAreChecked(t *testing.T) {
	for name, api := range map[string]API{
		"no such key":         {Key: 999, Handle: empty},
		"went with ZooKeeper": {Key: 4, Handle: empty},
		"controller's":        {Key: 62, Max: 4, Handle: empty},
		"no handler":          {Key: 3, Max: 13},
		"above Kafka's":       {Key: 3, Max: 14, Handle: empty},
		"below Kafka's":       {Key: 0, Min: 2, Max: 13, Handle: empty},
	} {
		if _, err := New(Config{}, []API{api}, zerolog.Nop()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(Config{}, []API{metadata(empty), metadata(empty)}, zerolog.Nop()); err == nil {
		t.Error("twice: no error")
	}
	if _, err := New(Config{Preface: []byte("\x00\x00\x01\x00"), Handover: func(net.Conn) {}}, nil, zerolog.Nop()); err == nil {
		t.Error("preface that is a frame size: no error")
	}
}

func TestServed(t *testing.T) {
	s, err := New(Config{}, []API{metadata(empty), produce(empty), {Key: 71, Handle: empty}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	c := Conn{server: s}
	if got := c.Served(); len(got) != 2 || got[0] != (VersionRange{0, 0, 13}) || got[1] != (VersionRange{3, 0, 13}) {
		t.Fatalf("%v", got)
	}
}

func TestRequestFields(t *testing.T) {
	var got Request
	_, addr := start(t, Config{Listener: "PLAINTEXT"}, metadata(func(ctx context.Context, req *Request) Answer {
		got = *req
		return empty(ctx, req)
	}))
	p := connect(t, addr)
	frame := encode(7, metadataRequest())
	_, _ = p.Write(frame)
	p.expect(7)
	if got.Key != 3 || got.Version != 9 || got.CorrelationID != 7 || got.ClientID != "test" || got.FrameSize != len(frame)-4 ||
		got.Conn.Listener != "PLAINTEXT" || got.Conn.Kind != protocol.BrokerListener || got.Conn.Principal != Anonymous ||
		got.Conn.RemoteAddr.String() != p.LocalAddr().String() || got.Received.IsZero() || got.Body.GetVersion() != 9 {
		t.Fatalf("%+v", got)
	}
}

// Frames of all sizes arrive whole, in whatever pieces they are sent.
func TestFrameSizes(t *testing.T) {
	var sum uint32
	_, addr := start(t, Config{}, produce(func(ctx context.Context, req *Request) Answer {
		sum = crc32.ChecksumIEEE(req.Body.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		return empty(ctx, req)
	}))
	p := connect(t, addr)
	for i, size := range []int{0, 1, 4000, 4030, 4036, 4040, 4050, 4096, 5000, 16 << 10, 100_000, 1<<20 - 50, 1 << 20, 1<<20 + 50, 3 << 20, 9 << 20} {
		records := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{}).Read(records)
		want := crc32.ChecksumIEEE(records)
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		req.Topics = []kmsg.ProduceRequestTopic{{Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
		frame := encode(int32(i), req)
		for len(frame) > 0 {
			n := min(len(frame), 1+len(frame)/3)
			_, _ = p.Write(frame[:n])
			frame = frame[n:]
		}
		p.expect(int32(i))
		if sum != want {
			t.Fatalf("%d bytes arrived changed", size)
		}
	}
}
