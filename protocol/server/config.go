package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/klamm/klamm/protocol"
)

// Config is what a Server is made from. Zero values mean the defaults named.
type Config struct {
	// Listener is the listener's name, such as PLAINTEXT.
	Listener string
	// Kind is the side of the node that the listener belongs to.
	Kind protocol.ListenerKind
	// MaxFrame is the largest request in bytes; a larger one closes its
	// connection. Default 100 MiB (socket.request.max.bytes).
	MaxFrame int32
	// MaxUnanswered is the number of requests per connection that may be
	// handled and not answered; beyond it the connection is not read. It
	// bounds what a client that pipelines produce requests without reading
	// can park here. Kafka's clients send at most 5. Default 100.
	MaxUnanswered int
	// Connections counts and bounds the open connections. The servers of a
	// node share one. Default: one of its own without bounds.
	Connections *Connections
	// IdleTimeout closes a connection on which nothing was read or written
	// for so long and no answer is due (connections.max.idle.ms). Default 10
	// minutes; negative: never.
	IdleTimeout time.Duration
	// FrameTimeout is how long a frame may take from its first byte to its
	// last, plus a second per MiB. A started frame holds memory that others
	// may wait for; Kafka knows no such limit, but its clients give up a
	// request after 30 seconds. Default 60 seconds.
	FrameTimeout time.Duration
	// WriteTimeout is how long the client may leave the socket's buffer full
	// before the connection is closed. Default 60 seconds.
	WriteTimeout time.Duration
	// SendBuffer and ReceiveBuffer are those of the sockets, in bytes
	// (socket.send.buffer.bytes, socket.receive.buffer.bytes). Default, and
	// with −1: the system's choice.
	SendBuffer, ReceiveBuffer int
	// Memory bounds the bytes of requests that are being read or handled.
	// The servers of a node share one. Default: one of its own.
	Memory *Memory

	// Preface marks connections that do not speak Kafka's protocol (Raft). As
	// the size of a frame its first 4 bytes must exceed MaxFrame.
	Preface []byte
	// Handover is given a connection that starts with Preface, read up to the
	// byte after it. The server forgets the connection: whoever gets it closes it.
	Handover func(net.Conn)

	// Authorize may refuse a request before it is handled; the error closes
	// the connection. It stands for checks that need no look into the body;
	// nil allows all.
	Authorize func(ctx context.Context, req *Request) error
	// Throttle returns how long the connection is left unread after the
	// request's answer, because its client exceeded a quota (KIP-219); nil
	// means never.
	Throttle func(req *Request) time.Duration
}

func (c *Config) setDefaults() error {
	if c.MaxFrame == 0 {
		c.MaxFrame = 100 << 20
	}
	if c.MaxUnanswered == 0 {
		c.MaxUnanswered = 100
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 10 * time.Minute
	}
	if c.FrameTimeout == 0 {
		c.FrameTimeout = time.Minute
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = time.Minute
	}
	if c.Memory == nil {
		c.Memory = NewMemory(defaultMemory)
	}
	if c.Connections == nil {
		c.Connections = NewConnections(NoConnectionLimits())
	}
	if c.MaxFrame < 0 || c.MaxUnanswered < 0 {
		return errors.New("limits of a server must not be negative")
	}
	if (len(c.Preface) > 0) != (c.Handover != nil) {
		return errors.New("preface and handover of a server belong together")
	}
	if len(c.Preface) > 0 && (len(c.Preface) < 4 || frameSize(c.Preface) <= c.MaxFrame && frameSize(c.Preface) >= 0) {
		return fmt.Errorf("preface % x could be the start of a request", c.Preface)
	}
	return nil
}
