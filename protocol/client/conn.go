package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// Config is what a connection is made from. Zero values mean the defaults named.
type Config struct {
	// ClientID is sent with every request.
	ClientID string
	// MaxFrame is the largest response that is read. Default 128 MiB: a
	// snapshot chunk or a fetch exceeds its limit by one batch at most.
	MaxFrame int32
	// Reuse reads every response into the same memory: the bytes in one are good
	// until the next request. It is for connections with one request at a time
	// and large responses.
	Reuse bool
	// Silence, where it is not 0, ends a connection whose peer's host has not been
	// heard of for so long: behind a silent cut the system would wait for minutes,
	// or until it is tried again, long after the cut is over.
	Silence time.Duration
	// Dial opens the connection; a TLS dialer goes here. Default: TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ErrClosed is what requests return after Close.
var ErrClosed = errors.New("connection is closed")

// Conn is one connection to a peer.
type Conn struct {
	cfg      Config
	netConn  net.Conn
	versions map[int16]versionRange // read only once Dial has returned
	// turn is held (by its one slot being taken) by whoever writes.
	turn chan struct{}
	// done is closed when the reader has ended.
	done chan struct{}
	// reused is the memory of responses, of the reader.
	reused reused

	// mu guards what follows.
	mu     sync.Mutex
	lastID int32
	calls  map[int32]*call
	err    error // why the connection has failed
}

type versionRange struct{ min, max int16 }

// call is a request that has not been answered. It stays when its caller has
// given up, so that the late response is known and dropped.
type call struct {
	resp kmsg.Response
	done chan error // size 1: the reader never waits for a caller that gave up
}

// Dial connects to addr and asks the peer for its versions. ctx bounds both.
func Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	if cfg.MaxFrame == 0 {
		cfg.MaxFrame = 128 << 20
	}
	if cfg.Dial == nil {
		cfg.Dial = dialer(cfg.Silence).DialContext
	}
	nc, err := cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		cfg:     cfg,
		netConn: nc,
		turn:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		calls:   make(map[int32]*call),
	}
	go c.read()
	if err := c.negotiate(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("ask %s for its versions: %w", addr, err)
	}
	return c, nil
}

// Close ends the connection and waits for its goroutine. Requests that wait
// return ErrClosed.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}

// Done is closed when the connection has failed or been closed: the peer's
// death shows here at once, without a request.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection failed, ErrClosed after Close, nil before.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// LocalAddr is our end of the connection, RemoteAddr the peer's.
func (c *Conn) LocalAddr() net.Addr { return c.netConn.LocalAddr() }

// RemoteAddr is the peer's end of the connection.
func (c *Conn) RemoteAddr() net.Addr { return c.netConn.RemoteAddr() }

// negotiate learns which versions the peer serves.
func (c *Conn) negotiate(ctx context.Context) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = "klamm", "1"
	r, err := c.RequestVersion(ctx, req)
	if err != nil {
		return err
	}
	resp := r.(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode != 0 {
		return protocol.Error(resp.ErrorCode)
	}
	c.versions = make(map[int16]versionRange, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
	}
	return nil
}

// Version returns the version in which Request would send req, or
// ErrUnsupportedVersion if there is none that both sides know.
func (c *Conn) Version(req kmsg.Request) (int16, error) {
	v, ok := c.versions[req.Key()]
	if !ok || v.min > req.MaxVersion() {
		return 0, fmt.Errorf("%s serves no common version of %s: %w",
			c.netConn.RemoteAddr(), kmsg.NameForKey(req.Key()), protocol.ErrUnsupportedVersion)
	}
	return min(v.max, req.MaxVersion()), nil
}

// Request sends req in the highest version that both sides know and returns the
// response, whose error codes it does not look at. req's version is set.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	version, err := c.Version(req)
	if err != nil {
		return nil, err
	}
	req.SetVersion(version)
	return c.RequestVersion(ctx, req)
}

// RequestVersion sends req in the version that it has.
func (c *Conn) RequestVersion(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := c.exchange(ctx, req, resp); err != nil {
		return nil, fmt.Errorf("%s to %s: %w", kmsg.NameForKey(req.Key()), c.netConn.RemoteAddr(), err)
	}
	return resp, nil
}

func (c *Conn) exchange(ctx context.Context, req kmsg.Request, resp kmsg.Response) error {
	call := &call{resp: resp, done: make(chan error, 1)}
	id, err := c.register(call)
	if err != nil {
		return err
	}
	frame := append(make([]byte, 0, 512), 0, 0, 0, 0)
	frame = protocol.AppendRequestHeader(frame, req.Key(), req.GetVersion(), id, c.cfg.ClientID)
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if err := c.write(ctx, frame); err != nil {
		c.forget(id)
		return err
	}
	select {
	case err := <-call.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Conn) register(call *call) (int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.lastID = (c.lastID + 1) & math.MaxInt32
	for c.calls[c.lastID] != nil {
		c.lastID = (c.lastID + 1) & math.MaxInt32
	}
	c.calls[c.lastID] = call
	return c.lastID, nil
}

// forget drops a call that was not sent.
func (c *Conn) forget(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// write writes a frame when it is its turn. A frame that was begun and not
// finished makes the connection useless.
func (c *Conn) write(ctx context.Context, frame []byte) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	_ = c.netConn.SetWriteDeadline(time.Time{})
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.netConn.SetWriteDeadline(time.Unix(1, 0))
		close(ended)
	})
	n, err := c.netConn.Write(frame)
	if !stop() {
		<-ended // lest it sets the deadline of the next writer
		if n == 0 && err != nil {
			return ctx.Err() // the context ended first: nothing is amiss
		}
	}
	if err != nil {
		c.fail(err)
		return c.Err()
	}
	return nil
}

// read hands responses to their calls until the connection fails.
func (c *Conn) read() {
	defer close(c.done)
	r := bufio.NewReader(c.netConn)
	for {
		frame, err := c.readFrame(r)
		if err == nil {
			err = c.deliver(frame)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			c.fail(err)
			return
		}
	}
}

// readFrame reads a frame without its size.
func (c *Conn) readFrame(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head))
	if size < 4 || size > c.cfg.MaxFrame {
		return nil, fmt.Errorf("response of %d bytes: %w", size, protocol.ErrHeader)
	}
	if head, err = r.Peek(8); err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); !c.waits(id) {
		// Before its bytes take the place of those of another one.
		return nil, fmt.Errorf("response to request %d, which was not sent", id)
	}
	_, _ = r.Discard(4)
	if !c.cfg.Reuse {
		return readInSteps(r, nil, int(size))
	}
	frame, err := readInSteps(r, c.reused.take(int(size)), int(size))
	c.reused.buf = frame
	return frame, err
}

// firstStep is how much memory a claimed length alone gets.
const firstStep = 1 << 20

// readInSteps reads n bytes into buf, where there is room, or into another one that
// grows with what arrives.
func readInSteps(r io.Reader, buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		if cap(buf) == have {
			grown := make([]byte, have, min(n, max(firstStep, 2*have)))
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:min(n, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return buf[:0], err
		}
	}
	return buf, nil
}

// reused is memory that is used again. What one large response took is let go when
// it has not been needed for a while.
type reused struct {
	buf  []byte
	idle int // responses since one needed half of it
}

const mostIdle = 100

// take returns what there is for a response of n bytes.
func (r *reused) take(n int) []byte {
	if r.idle++; n >= cap(r.buf)/2 {
		r.idle = 0
	}
	if r.idle > mostIdle {
		*r = reused{}
	}
	return r.buf
}

// waits tells whether a request has not been answered yet.
func (c *Conn) waits(id int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id] != nil
}

// deliver decodes a response into its call. An error fails the connection.
func (c *Conn) deliver(frame []byte) error {
	id := int32(binary.BigEndian.Uint32(frame))
	c.mu.Lock()
	call, ok := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("response to request %d, which was not sent", id)
	}
	_, body, err := protocol.ParseResponseHeader(frame, call.resp.Key(), call.resp.GetVersion())
	if err == nil {
		err = call.resp.ReadFrom(body)
	}
	if err != nil {
		err = fmt.Errorf("decode response: %w", err)
	}
	call.done <- err
	return err
}

// fail ends the connection for the first reason given.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	_ = c.netConn.Close()
	for id, call := range c.calls {
		delete(c.calls, id)
		call.done <- err
	}
}
