package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// Anonymous is the principal of a connection that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Conn is a client's connection. Its fields are set before the first request;
// SetClientSoftware is called by the handler of ApiVersions.
type Conn struct {
	// ID is unique within the process.
	ID uint64
	// Listener and Kind are those of the server.
	Listener string
	Kind     protocol.ListenerKind
	// RemoteAddr is the client's address.
	RemoteAddr net.Addr
	// Principal is who the client is, such as User:alice.
	Principal string

	softwareName, softwareVersion string

	server  *Server
	log     zerolog.Logger
	netConn net.Conn
	tcp     *net.TCPConn // netConn if it is one, for sendfile
	tcpRaw  syscall.RawConn
	in      *input
	// idleArmed tells that the read deadline is that of idleness.
	idleArmed bool
	// answered tells that an answer has been written.
	answered atomic.Bool
	// clientID is the last client id: the next one is most often the same.
	clientID string

	// lastActive is when a request was last read or an answer written, in
	// nanoseconds since 1970.
	lastActive atomic.Int64
	// unanswered counts the answers that the writer has not written.
	unanswered atomic.Int32
	// ahead tells that all unanswered requests are of APIs that run ahead.
	ahead bool
	// clientGone tells that reading ended because the client is gone: answers
	// that still wait are not written any more.
	clientGone atomic.Bool
	// graceEnd is when writes end for good, in nanoseconds since 1970; 0
	// while the connection is to go on.
	graceEnd atomic.Int64

	// queue holds what the writer shall answer, in order. Its capacity is
	// MaxUnanswered; when it is full the connection is not read. nil until the
	// first answer that waits: most connections never need a writer.
	queue chan pending
	// written is signalled when the writer is done with all it was given.
	written chan struct{}
	// writerDone is closed when the writer has ended.
	writerDone chan struct{}
}

// ClientSoftware is what the client called itself in ApiVersions (KIP-511), empty before.
func (c *Conn) ClientSoftware() (name, version string) { return c.softwareName, c.softwareVersion }

// SetClientSoftware is called by the handler of ApiVersions.
func (c *Conn) SetClientSoftware(name, version string) {
	c.softwareName, c.softwareVersion = name, version
}

// Served returns the APIs that the listener serves, for ApiVersions: sorted by
// key, with the versions to list. The slice is shared and not to be changed.
func (c *Conn) Served() []VersionRange { return c.server.listed }

// newConn returns the connection without starting anything.
func newConn(s *Server, id uint64, nc net.Conn) *Conn {
	c := &Conn{
		ID: id, Listener: s.cfg.Listener, Kind: s.cfg.Kind, RemoteAddr: nc.RemoteAddr(), Principal: Anonymous,
		server: s, netConn: nc,
		ahead: true,
		log:   s.log.With().Uint64("connection", id).Stringer("remote", nc.RemoteAddr()).Logger(),
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.tcp, c.tcpRaw = tcp, raw
		}
		// Where the system wants none of it, its own choice stays.
		if n := s.cfg.SendBuffer; n > 0 {
			_ = tcp.SetWriteBuffer(n)
		}
		if n := s.cfg.ReceiveBuffer; n > 0 {
			_ = tcp.SetReadBuffer(n)
		}
	}
	c.in = newInput(nc, c.tcpRaw, s.cfg.Memory)
	c.lastActive.Store(time.Now().UnixNano())
	return c
}

// run serves the connection until it ends, and returns when its goroutines
// have. Then it is closed, unless it was handed over.
func (c *Conn) run(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	// The end of ctx ends reads at once and leaves writes a moment.
	stop := context.AfterFunc(ctx, func() {
		end := time.Now().Add(shutdownGrace)
		c.graceEnd.Store(end.UnixNano())
		_ = c.netConn.SetReadDeadline(time.Unix(1, 0))
		_ = c.netConn.SetWriteDeadline(end)
	})
	err := c.read(ctx, cancel)
	rest := c.in.rest()
	c.in.release()
	if errors.Is(err, errHandover) && stop() {
		cancel()
		_ = c.netConn.SetDeadline(time.Time{})
		c.server.cfg.Handover(rest)
		return
	}
	if isGone(err) && ctx.Err() == nil {
		c.clientGone.Store(true)
		cancel()
	}
	// Whatever was answered before the end is still written.
	if c.queue != nil {
		close(c.queue)
		<-c.writerDone
	}
	cancel()
	stop()
	c.logEnd(err)
	if !c.answered.Load() && parent.Err() != nil {
		reset(c.netConn)
		return
	}
	_ = c.netConn.Close()
}

// logEnd says why the connection ended: aloud where the client sent what we can
// not read, since nobody else would tell an operator of it.
func (c *Conn) logEnd(err error) {
	if errors.Is(err, errUnreadable) {
		c.log.Warn().Err(err).Msg("connection closed: its client sends what cannot be read")
	} else if e := c.log.Debug(); e.Enabled() {
		e.Err(err).Msg("connection closed")
	}
}

// errUnreadable is what a client sent that is no request we serve.
var errUnreadable = errors.New("unreadable request")

// reset closes a connection that the stop of the server ends before anything has
// been answered on it. Clients take an orderly end before the first answer for a
// server that wants TLS or SASL, and give up. A reset they take for what it is,
// and try again.
func reset(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = nc.Close()
}

var errHandover = errors.New("connection speaks another protocol")

// isGone tells whether reading ended because there is nobody to read from.
func isGone(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr)
}

// read reads and handles requests until the connection ends.
func (c *Conn) read(ctx context.Context, cancel context.CancelFunc) error {
	if other, err := c.startsWithPreface(ctx); err != nil {
		return err
	} else if other {
		return errHandover
	}
	var f frame
	for {
		if err := c.readOne(ctx, cancel, &f); err != nil {
			return err
		}
	}
}

func (c *Conn) readOne(ctx context.Context, cancel context.CancelFunc, f *frame) error {
	defer c.release(f)
	if err := c.nextFrame(ctx, f); err != nil {
		return err
	}
	return c.dispatch(ctx, cancel, f.bytes)
}

// startsWithPreface tells whether the connection begins with the preface, and
// takes that in if so.
func (c *Conn) startsWithPreface(ctx context.Context) (bool, error) {
	preface := c.server.cfg.Preface
	if len(preface) == 0 {
		return false, nil
	}
	if err := c.awaitByte(ctx); err != nil {
		return false, err
	}
	if err := c.setFrameDeadline(ctx, 0); err != nil {
		return false, err
	}
	// As a size the first 4 bytes exceed any request: one look decides.
	head, err := c.in.peek(4)
	if err != nil || !bytes.Equal(head, preface[:4]) {
		return false, err
	}
	if head, err = c.in.peek(len(preface)); err != nil || !bytes.Equal(head, preface) {
		return false, err
	}
	c.in.discard(len(preface))
	return true, nil
}
