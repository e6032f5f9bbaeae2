package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// tcpPair returns the two ends of a connection.
func tcpPair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close(); _ = fc.Close() })
	return nc.(*net.TCPConn), fc.(*net.TCPConn)
}

// reading returns a connection that is only read, by nextFrame, and counts its
// attempts to read.
func reading(t testing.TB, nc net.Conn, memory int64) (c *Conn, attempts *int) {
	t.Helper()
	cfg := Config{Memory: NewMemory(memory)}
	if err := cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	c = newConn(&Server{cfg: cfg}, 1, nc)
	attempts = new(int)
	if try := c.in.attempt; try != nil {
		c.in.attempt = func(fd uintptr) bool { *attempts++; return try(fd) }
	}
	return c, attempts
}

// numbered returns a frame of n bytes that begins with its number.
func numbered(i, n int) []byte {
	p := make([]byte, 4+n)
	binary.BigEndian.PutUint32(p, uint32(n))
	for j := range p[4:] {
		p[4+j] = byte(i + j)
	}
	return p
}

// TestFramesInAnyPieces shows that frames of all sizes arrive as they were sent,
// however the bytes come, with memory to read ahead and without, and that in the
// end the connection holds none of it.
func TestFramesInAnyPieces(t *testing.T) {
	for _, memory := range []int64{defaultMemory, 1 << 10} {
		for _, kind := range []string{"tcp", "pipe"} {
			t.Run(fmt.Sprintf("%s, %d bytes", kind, memory), func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rng := rand.New(rand.NewPCG(seed, 0))
				var near, far net.Conn
				if kind == "tcp" {
					near, far = tcpPair(t)
				} else {
					near, far = net.Pipe()
				}
				var frames [][]byte
				for i := range 300 {
					bound := []int{100, smallFrame, smallFrame + 8, 20 << 10, 17 << 10, aheadFrame, 3 * aheadFrame}[rng.IntN(7)]
					n := bound - 4 // as large as the buffer
					if rng.IntN(3) > 0 {
						n = 1 + rng.IntN(bound)
					}
					frames = append(frames, numbered(i, n))
				}
				all := bytes.Join(frames, nil)
				go func() {
					for len(all) > 0 {
						n := min(len(all), 1+rng.IntN(64<<10))
						if rng.IntN(4) == 0 {
							n = min(n, 9)
						}
						if _, err := near.Write(all[:n]); err != nil {
							return
						}
						all = all[n:]
					}
					_ = near.Close()
				}()
				c, _ := reading(t, far, memory)
				var f frame
				for i, want := range frames {
					err := c.nextFrame(context.Background(), &f)
					if err != nil || !bytes.Equal(f.bytes, want[4:]) {
						t.Fatalf("frame %d of %d bytes: %d bytes, %v", i, len(want)-4, len(f.bytes), err)
					}
					c.release(&f)
				}
				if err := c.nextFrame(context.Background(), &f); err == nil {
					t.Error("a frame after the last one")
				}
				c.release(&f)
				c.in.release()
				if eager := c.server.cfg.Memory.eager; !eager.tryAcquire(eager.size) {
					t.Error("memory is held after the end")
				}
			})
		}
	}
}

// TestReadAhead shows that a connection of 16 KiB requests takes several in with
// one read, one that comes alone with one, and holds no buffer while it waits.
func TestReadAhead(t *testing.T) {
	if !canTry {
		t.Skip("no raw reads on this system: every connection has a buffer of its own")
	}
	near, far := tcpPair(t)
	c, attempts := reading(t, far, defaultMemory)
	send := func(frames ...[]byte) {
		t.Helper()
		if _, err := near.Write(bytes.Join(frames, nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // until all of it has come
	}
	next := func(want []byte) {
		t.Helper()
		var f frame
		if err := c.nextFrame(context.Background(), &f); err != nil || !bytes.Equal(f.bytes, want[4:]) {
			t.Fatalf("frame of %d bytes: %d bytes, %v", len(want)-4, len(f.bytes), err)
		}
		c.release(&f)
	}
	f := [...][]byte{numbered(0, 16100), numbered(1, 16100), numbered(2, 16100), numbered(3, 16100), numbered(4, 16100)}
	send(f[0])
	next(f[0]) // from here on it is known what comes
	*attempts = 0
	send(f[1])
	next(f[1])
	if *attempts != 1 {
		t.Errorf("a request that had come alone took %d reads", *attempts)
	}
	*attempts = 0
	send(f[:]...)
	for _, want := range f {
		next(want)
	}
	if *attempts > 2 {
		t.Errorf("%d requests that had come together took %d reads", len(f), *attempts)
	}
	if c.in.pooled != nil {
		t.Error("a buffer is held between requests")
	}
	waiting := make(chan error, 1)
	go func() {
		var fr frame
		waiting <- c.nextFrame(context.Background(), &fr)
	}()
	time.Sleep(20 * time.Millisecond)
	if eager := c.server.cfg.Memory.eager; !eager.tryAcquire(eager.size) {
		t.Error("a connection that waits holds memory")
	}
	_ = near.Close()
	if err := <-waiting; !isGone(err) {
		t.Errorf("at the end: %v", err)
	}
}
