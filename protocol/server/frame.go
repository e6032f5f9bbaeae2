package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// never is a timeout beyond any life of a connection.
const never = 100 * 365 * 24 * time.Hour

var (
	errFrameSize = fmt.Errorf("%w: its size is out of range", errUnreadable)
	errIdle      = errors.New("connection was idle")
)

// frameSize reads the size in front of a frame.
func frameSize(p []byte) int32 { return int32(binary.BigEndian.Uint32(p)) }

// frame is a request's bytes without the size, and what is to be given back
// when they are done with.
type frame struct {
	bytes   []byte
	discard int     // bytes of the read buffer that the frame lies in
	buf     *[]byte // nil where the frame lies in the read buffer

	// Held of the budgets: eager or one of the steps, and large.
	eager, step, large int64
	class              int // of the step
}

// release gives everything back; the bytes must not be used any more.
func (c *Conn) release(f *frame) {
	if f.discard > 0 {
		c.in.discard(f.discard)
	}
	if f.buf != nil {
		putBuffer(f.buf)
	}
	if f.eager > 0 {
		c.server.cfg.Memory.eager.release(f.eager)
	}
	if f.step > 0 {
		c.server.cfg.Memory.steps[f.class].release(f.step)
	}
	if f.large > 0 {
		c.server.cfg.Memory.large.release(f.large)
	}
	*f = frame{}
}

// nextFrame reads one frame. What it allocates is bounded by what has arrived,
// not by what the size field claims. The frame is valid until release, which
// must come before the next call, after an error too.
func (c *Conn) nextFrame(ctx context.Context, f *frame) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.awaitByte(ctx); err != nil {
		return err
	}
	if c.in.buffered() < 4 {
		if err := c.setFrameDeadline(ctx, 0); err != nil {
			return err
		}
	}
	head, err := c.in.peek(4)
	if err != nil {
		return err
	}
	size := frameSize(head)
	if size <= 0 || size > c.server.cfg.MaxFrame {
		return fmt.Errorf("%w: %d", errFrameSize, size)
	}
	n := int(size)
	if c.in.fits(n + 4) {
		if c.in.buffered() < n+4 {
			if err := c.setFrameDeadline(ctx, n); err != nil {
				return err
			}
		}
		p, err := c.in.peek(n + 4)
		if err != nil {
			return err
		}
		f.bytes, f.discard = p[4:], n+4
		return nil
	}
	c.in.discard(4)
	return c.readLarge(ctx, f, n)
}

// readLarge reads a frame of n bytes that does not fit the read buffer.
func (c *Conn) readLarge(ctx context.Context, f *frame, n int) error {
	first := min(n, maxPooled)
	start := min(first, classSize(claimedClass))
	memory := c.server.cfg.Memory
	var err error
	if size := int64(classSize(class(start))); memory.eager.tryAcquire(size) {
		f.eager = size
		err = c.readEager(ctx, f, n, start)
	}
	if err == nil && len(f.bytes) < first {
		err = c.readFirst(ctx, f, n, first)
	}
	if err != nil {
		return err
	}
	if n == first {
		return nil
	}
	if f.large, err = c.server.cfg.Memory.large.acquire(ctx, int64(n)); err != nil {
		f.large = 0
		return err
	}
	// Waiting for memory is not the client's slowness.
	if err := c.setFrameDeadline(ctx, n); err != nil {
		return err
	}
	for have := first; have < n; have = len(f.bytes) {
		grown := make([]byte, min(2*have, n))
		copy(grown, f.bytes)
		if f.buf != nil {
			putBuffer(f.buf)
			f.buf = nil
		}
		f.bytes = grown
		if _, err := io.ReadFull(c.in, f.bytes[have:]); err != nil {
			return err
		}
	}
	return nil
}

// readEager reads the first bytes of a frame of n into a buffer of their size.
func (c *Conn) readEager(ctx context.Context, f *frame, n, first int) error {
	if err := c.setFrameDeadline(ctx, n); err != nil {
		return err
	}
	f.buf = getBuffer(first)
	f.bytes = *f.buf
	_, err := io.ReadFull(c.in, f.bytes)
	return err
}

// readFirst goes on to the first bytes of a frame of n, whose beginning may have
// been read: into a buffer of their size where that is so and there is memory,
// else into one that grows as they arrive.
func (c *Conn) readFirst(ctx context.Context, f *frame, n, first int) error {
	size := int64(classSize(class(first)))
	if len(f.bytes) == 0 || !c.server.cfg.Memory.eager.tryAcquire(size) {
		return c.readInSteps(ctx, f, n, first)
	}
	have := len(f.bytes)
	c.grow(f, first)
	f.eager = size
	_, err := io.ReadFull(c.in, f.bytes[have:])
	return err
}

// readInSteps reads the first bytes of a frame of n, or what is missing of them,
// into a buffer that grows as they arrive.
func (c *Conn) readInSteps(ctx context.Context, f *frame, n, first int) error {
	for next := claimedClass; len(f.bytes) < first; next++ {
		have := len(f.bytes)
		if classSize(next) <= have {
			continue
		}
		held, err := c.server.cfg.Memory.steps[next].acquire(ctx, int64(classSize(next)))
		if err != nil {
			return err
		}
		c.grow(f, min(first, classSize(next)))
		f.step, f.class = held, next
		// Waiting for memory is not the client's slowness.
		if err := c.setFrameDeadline(ctx, n); err != nil {
			return err
		}
		if _, err := io.ReadFull(c.in, f.bytes[have:]); err != nil {
			return err
		}
	}
	return nil
}

// grow moves a frame into a buffer of n bytes and gives back what the old one
// held of eager and steps.
func (c *Conn) grow(f *frame, n int) {
	grown := getBuffer(n)
	copy(*grown, f.bytes)
	if f.buf != nil {
		putBuffer(f.buf)
	}
	if f.eager > 0 {
		c.server.cfg.Memory.eager.release(f.eager)
	}
	if f.step > 0 {
		c.server.cfg.Memory.steps[f.class].release(f.step)
	}
	f.buf, f.bytes, f.eager, f.step = grown, *grown, 0, 0
}

// awaitByte waits until a frame begins. It gives up after the idle timeout,
// counted from the last read or write, but never while an answer is due.
func (c *Conn) awaitByte(ctx context.Context) error {
	idle := c.server.cfg.IdleTimeout
	if idle < 0 {
		idle = never
	}
	for c.in.buffered() == 0 {
		// The deadline is set when it was used up or replaced, not per frame.
		if !c.idleArmed {
			if err := c.setReadDeadline(ctx, time.Now().Add(idle)); err != nil {
				return err
			}
			c.idleArmed = true
		}
		_, err := c.in.peek(1)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		rest := idle - time.Duration(time.Now().UnixNano()-c.lastActive.Load())
		if c.unanswered.Load() > 0 {
			rest = idle
		}
		if rest <= 0 {
			return errIdle
		}
		if err := c.setReadDeadline(ctx, time.Now().Add(rest)); err != nil {
			return err
		}
	}
	return nil
}

// setFrameDeadline bounds the time that a frame of n bytes may take.
func (c *Conn) setFrameDeadline(ctx context.Context, n int) error {
	c.idleArmed = false
	return c.setReadDeadline(ctx, time.Now().Add(c.server.cfg.FrameTimeout+time.Duration(n>>20)*time.Second))
}

// setReadDeadline sets the deadline of reads, unless ctx has ended: its end
// sets a deadline that has passed, which must not be undone.
func (c *Conn) setReadDeadline(ctx context.Context, t time.Time) error {
	if err := c.netConn.SetReadDeadline(t); err != nil {
		return err
	}
	return ctx.Err()
}
