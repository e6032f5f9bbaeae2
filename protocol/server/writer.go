package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/klamm/klamm/protocol"
)

// shutdownGrace is how long answers may still be written once the connection
// or the server is to end.
const shutdownGrace = 5 * time.Second

// pending is a handled request whose answer has not been written.
type pending struct {
	key, version  int16
	correlationID int32
	runsAhead     bool
	answer        Answer
}

// runWriter completes and writes the queued answers in order until the queue
// is closed. After an error it ends the connection and disposes of the rest.
func (c *Conn) runWriter(ctx context.Context, cancel context.CancelFunc) {
	defer close(c.writerDone)
	broken := false
	for p := range c.queue {
		if err := c.complete(ctx, &p, broken); err != nil && !broken {
			if e := c.log.Debug(); e.Enabled() {
				e.Err(err).Msg("connection is not written any more")
			}
			broken = true
			cancel()
		}
		c.lastActive.Store(time.Now().UnixNano())
		if c.unanswered.Add(-1) == 0 {
			select {
			case c.written <- struct{}{}:
			default:
			}
		}
	}
}

// complete waits for the answer and writes it, unless nobody reads it.
func (c *Conn) complete(ctx context.Context, p *pending, broken bool) error {
	defer p.answer.release()
	waited := c.await(ctx, p)
	if broken || waited && c.clientGone.Load() {
		return nil
	}
	return c.write(ctx, p)
}

// await completes the answer, and tells whether there was anything to wait for.
func (c *Conn) await(ctx context.Context, p *pending) (waited bool) {
	panics := true
	defer c.blame(p.key, p.version, &panics)
	for p.answer.Wait != nil {
		wait := p.answer.Wait
		p.answer = wait(ctx)
		waited = true
	}
	panics = false
	return waited
}

// write writes a complete answer and releases it.
func (c *Conn) write(ctx context.Context, p *pending) error {
	defer p.answer.release()
	a := &p.answer
	switch {
	case a.Close != nil:
		return a.Close
	case a.None:
		return nil
	case a.Response == nil && a.Parts == nil:
		panic(fmt.Sprintf("server: the answer to key %d version %d says nothing", p.key, p.version))
	}
	buf := getBuffer(minPooled)
	defer func() { putBuffer(buf) }()
	head := append((*buf)[:0], 0, 0, 0, 0)
	head = protocol.AppendResponseHeader(head, p.key, p.version, p.correlationID)
	size := len(head) - 4
	if a.Response != nil {
		a.Response.SetVersion(p.version)
		head = a.Response.AppendTo(head)
		size = len(head) - 4
	}
	*buf = head // AppendTo may have moved it
	for i := range a.Parts {
		size += len(a.Parts[i].Bytes)
		if r := a.Parts[i].Region; r != nil {
			size += r.Size()
		}
	}
	if size > math.MaxInt32 {
		return fmt.Errorf("answer to key %d has %d bytes, more than a frame holds", p.key, size)
	}
	binary.BigEndian.PutUint32(head, uint32(size))
	if len(a.Parts) == 0 && len(head) <= flushSize {
		c.setWriteDeadline()
		_, err := c.netConn.Write(head)
		c.answered.Store(true)
		return err
	}
	c.answered.Store(true)
	return c.writeParts(head, a.Parts)
}

// writeParts writes head and the parts behind it.
func (c *Conn) writeParts(head []byte, parts []Part) error {
	if c.tcp != nil && hasLargeRegion(parts) {
		// Small packets for what lies between the regions would cost more
		// than these two calls.
		setCork(c.tcpRaw, true)
		defer setCork(c.tcpRaw, false)
	}
	g := newGather(c)
	defer g.done()
	if err := g.add(head); err != nil {
		return err
	}
	for i := range parts {
		p := &parts[i]
		if p.Region == nil {
			if err := g.add(p.Bytes); err != nil {
				return err
			}
			continue
		}
		if err := g.addRegion(p.Region); err != nil {
			return err
		}
		r := p.Region
		p.Region = nil
		r.Release()
	}
	return g.flush()
}

func hasLargeRegion(parts []Part) bool {
	for i := range parts {
		if r := parts[i].Region; r != nil && r.Size() >= sendfileFrom {
			return true
		}
	}
	return false
}

// setWriteDeadline gives the client another write timeout, but no more than
// the grace that is left once the connection is to end.
func (c *Conn) setWriteDeadline() {
	_ = c.netConn.SetWriteDeadline(time.Now().Add(c.server.cfg.WriteTimeout))
	// Looked at last: whoever sets it also sets the deadline, afterwards.
	if end := c.graceEnd.Load(); end != 0 {
		_ = c.netConn.SetWriteDeadline(time.Unix(0, end))
	}
}
