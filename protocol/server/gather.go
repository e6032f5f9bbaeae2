package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	// flushSize is how much is gathered before it is written: with each write
	// the client gets the write timeout anew.
	flushSize = 1 << 20
	// copyBelow is the size below which bytes are copied next to their
	// neighbours instead of taking a vector (or a TLS record) of their own.
	copyBelow = 4 << 10
	// copyChunk is the size of the buffers that small bytes are copied to.
	copyChunk = 16 << 10
	// readChunk is how much of a region is read at a time where it cannot be
	// sent by sendfile.
	readChunk = 256 << 10
	// sendfileFrom is the size of a region from which sendfile is cheaper
	// than reading it and writing it together with what surrounds it.
	sendfileFrom = 16 << 10
)

// gather collects an answer and writes it in few calls: writev for bytes,
// sendfile for large regions. On connections that are not plain TCP a vector
// is written piece by piece, so small pieces are copied together for all.
type gather struct {
	conn *Conn
	vec  net.Buffers
	size int       // bytes in vec
	bufs []*[]byte // pooled buffers that vec refers to
	free []byte    // the rest of the last one
	open bool      // the last element of vec ends where free begins
}

var gathers = sync.Pool{New: func() any { return new(gather) }}

func newGather(c *Conn) *gather {
	g := gathers.Get().(*gather)
	g.conn = c
	return g
}

// done gives the gather back, written or not.
func (g *gather) done() {
	g.reset()
	g.conn = nil
	gathers.Put(g)
}

func (g *gather) reset() {
	for _, b := range g.bufs {
		putBuffer(b)
	}
	clear(g.vec)
	clear(g.bufs)
	g.vec, g.bufs, g.size, g.free, g.open = g.vec[:0], g.bufs[:0], 0, nil, false
}

// add adds bytes, which must stay as they are until flush.
func (g *gather) add(p []byte) error {
	if len(p) < copyBelow {
		if g.size+len(p) > flushSize {
			if err := g.flush(); err != nil {
				return err
			}
		}
		copy(g.room(len(p)), p)
		return nil
	}
	for len(p) > 0 {
		n := min(len(p), flushSize-g.size)
		if n > 0 {
			g.vec = append(g.vec, p[:n])
			g.size += n
			g.open = false
			p = p[n:]
		}
		if g.size >= flushSize {
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRegion adds the region's bytes: they are copied or sent on return.
func (g *gather) addRegion(r Region) error {
	n := r.Size()
	if g.conn.tcp != nil && n >= sendfileFrom {
		if f, pos, ok := r.File(); ok {
			if err := g.flush(); err != nil {
				return err
			}
			return g.conn.sendfile(f, pos, n)
		}
	}
	for off := 0; off < n; {
		p := min(n-off, readChunk)
		if g.size+p > flushSize {
			if err := g.flush(); err != nil {
				return err
			}
		}
		// The frame's size has been promised: less than that ends the connection.
		if read, err := r.ReadAt(g.room(p), int64(off)); read < p {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d of %d bytes of a log region: %w", off+read, n, err)
		}
		off += p
	}
	return nil
}

// room returns space for n bytes, at most readChunk, at the end of what was gathered.
func (g *gather) room(n int) []byte {
	if len(g.free) < n {
		b := getBuffer(max(n, copyChunk))
		g.bufs = append(g.bufs, b)
		g.free = *b
		g.open = false
	}
	p := g.free[:n]
	g.free = g.free[n:]
	if g.open {
		last := &g.vec[len(g.vec)-1]
		*last = (*last)[:len(*last)+n]
	} else if n > 0 {
		g.vec = append(g.vec, p)
		g.open = true
	}
	g.size += n
	return p
}

// flush writes what was gathered.
func (g *gather) flush() error {
	if g.size == 0 {
		return nil
	}
	g.conn.setWriteDeadline()
	vec := g.vec // WriteTo eats its receiver
	_, err := vec.WriteTo(g.conn.netConn)
	g.reset()
	return err
}
