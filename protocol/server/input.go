package server

import (
	"bytes"
	"io"
	"net"
	"syscall"
)

const (
	// smallFrame is the size of a connection's read buffer. A frame that fits,
	// its size field included, is decoded where it lies.
	smallFrame = 4 << 10
	// aheadFrame is the size of the buffer that takes its place on a connection
	// whose last request was larger than smallFrame, but not than this: one read
	// takes in all of a request, and what is pipelined behind it.
	aheadFrame = 64<<10 + headroom
)

// input is the side of a connection that is read: what has come of it and has
// not been used. On plain TCP it has a buffer only while there is something in
// it, so that an idle connection costs none.
type input struct {
	nc     net.Conn
	raw    syscall.RawConn // nil unless nc is plain TCP
	memory *Memory
	// attempt is tryRead, made once.
	attempt func(fd uintptr) bool

	pooled *[]byte // nil while nothing is held
	buf    []byte  // of pooled; as long as what is to be read into
	r, w   int     // what is unread is buf[r:w]
	ahead  int64   // held of the eager budget
	// larger tells that the last frame was one that reading ahead is for.
	larger bool

	n   int // of the last attempt
	err error
}

func newInput(nc net.Conn, raw syscall.RawConn, memory *Memory) *input {
	in := &input{nc: nc, memory: memory}
	if canTry {
		in.raw, in.attempt = raw, in.tryRead
	}
	return in
}

func (in *input) buffered() int { return in.w - in.r }

// fits notes the size of the frame that begins here, and tells whether it can be
// decoded in the buffer.
func (in *input) fits(n int) bool {
	in.larger = n > smallFrame && n <= aheadFrame
	return n <= len(in.buf)
}

// peek returns the next n bytes, no more than fit the buffer, once they have
// come. They are valid until the next call of anything but discard.
func (in *input) peek(n int) ([]byte, error) {
	for in.w-in.r < n {
		if in.r+n > len(in.buf) && in.r > 0 {
			in.w = copy(in.buf, in.buf[in.r:in.w])
			in.r = 0
		}
		if err := in.fill(); err != nil {
			if err == io.EOF && in.w > in.r {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return in.buf[in.r : in.r+n], nil
}

// discard drops n bytes that have been peeked. What they alias is used again.
func (in *input) discard(n int) {
	if in.r += n; in.r == in.w {
		in.letGo()
	}
}

// Read takes what has come already, and reads past the buffer where there is nothing.
func (in *input) Read(p []byte) (int, error) {
	if in.r == in.w {
		return in.nc.Read(p)
	}
	n := copy(p, in.buf[in.r:in.w])
	in.discard(n)
	return n, nil
}

// fill waits for bytes and adds them to the buffer, which has room.
func (in *input) fill() error {
	if in.raw == nil {
		in.hold()
		n, err := in.nc.Read(in.buf[in.w:])
		in.w += n
		if n > 0 {
			return nil
		}
		return err
	}
	if err := in.raw.Read(in.attempt); err != nil {
		return err
	}
	n, err := in.n, in.err
	if in.n, in.err = 0, nil; err != nil {
		return err
	}
	in.w += n
	return nil
}

// hold sees to it that there is a buffer.
func (in *input) hold() {
	if in.pooled != nil {
		return
	}
	if in.raw != nil && in.larger {
		if size := int64(classSize(class(aheadFrame))); in.memory.eager.tryAcquire(size) {
			in.ahead = size
			in.pooled = getBuffer(aheadFrame)
			in.buf = *in.pooled
			return
		}
	}
	in.pooled = getBuffer(smallFrame)
	in.buf = *in.pooled
}

// letGo empties the buffer and gives it back; without raw reads it is kept, as
// somebody waits with it in hand.
func (in *input) letGo() {
	in.r, in.w = 0, 0
	if in.raw != nil {
		in.release()
	}
}

func (in *input) release() {
	if in.pooled == nil {
		return
	}
	putBuffer(in.pooled)
	if in.ahead > 0 {
		in.memory.eager.release(in.ahead)
	}
	in.pooled, in.buf, in.ahead, in.r, in.w = nil, nil, 0, 0, 0
}

// rest returns the connection with what has been read ahead of it in front.
func (in *input) rest() net.Conn {
	if in.r == in.w {
		return in.nc
	}
	return &readConn{Conn: in.nc, reader: io.MultiReader(bytes.NewReader(bytes.Clone(in.buf[in.r:in.w])), in.nc)}
}

// readConn is a connection whose first bytes have been read already.
type readConn struct {
	net.Conn
	reader io.Reader
}

func (c *readConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
