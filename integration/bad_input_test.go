//go:build integration

package integration

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// frame puts the length in front.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// request is a frame with a header of version 1 and no client id.
func request(key, version int16, body ...byte) []byte {
	head := binary.BigEndian.AppendUint16(nil, uint16(key))
	head = binary.BigEndian.AppendUint16(head, uint16(version))
	head = append(head, 0, 0, 0, 9, 0xff, 0xff)
	return frame(append(head, body...))
}

// TestBadInput: what no client sends costs the sender its connection and
// nobody else anything: a producer goes on beside it, memory stays bounded.
func TestBadInput(t *testing.T) {
	n := harness.Start(t, "socket.request.max.bytes=1048576")
	createTopic(t, n.Address, "beside", 1)
	w := newWriter(t, n.Address, "beside", 1)
	w.waitForMore(t, 1000)
	before := n.Usage().RSS

	noise := make([]byte, 4096)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	noise[0] |= 0x80 // a negative size
	cases := []struct {
		name  string
		bytes []byte
	}{
		{"size zero", []byte{0, 0, 0, 0}},
		{"negative size", []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}},
		{"one byte above the limit", append([]byte{0, 0x10, 0, 1}, noise...)},
		{"two GiB announced", []byte{0x7f, 0xff, 0xff, 0xff}},
		{"random bytes", noise},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{"TLS", []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}},
		{"header too short", frame([]byte{0, 18, 0, 0, 0})},
		{"unknown key", request(999, 0)},
		{"negative key", request(-7, 0)},
		{"unknown version", request(3, 99, 0, 0, 0, 0)},
		{"body cut off", request(3, 1, 0, 0, 0, 5, 0, 9)},
		{"an array of two billion", request(3, 1, 0x7f, 0xff, 0xff, 0xff)},
		{"produce with a length beyond the frame", request(0, 3, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff)},
		{"client id beyond the frame", frame([]byte{0, 18, 0, 0, 0, 0, 0, 1, 0x7f, 0xff})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { wantClosed(t, n.Address, c.bytes) })
	}

	t.Run("many at once", func(t *testing.T) {
		// Frames that are announced and never come must not hold what they
		// announce, neither of the memory nor of what others wait for.
		const conns = 300
		for range conns {
			conn := dial(t, n.Address)
			if _, err := conn.Write([]byte{0, 0x0f, 0xff, 0xff, 0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		w.waitWithin(t, 1000, 10*time.Second)
	})
	t.Run("a request that was whole before the bad one is answered", func(t *testing.T) {
		conn := dial(t, n.Address)
		reply, err := roundTrip(conn, append(append([]byte{}, apiVersions...), request(999, 0)...), 10*time.Second)
		if err != nil || binary.BigEndian.Uint32(reply) != 7 {
			t.Errorf("reply % x, %v", clip(string(reply)), err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after it: %v, want the end of the connection", err)
		}
	})

	w.waitForMore(t, 1000)
	w.stop(t)
	if after := n.Usage().RSS; after > before+64<<20 {
		t.Errorf("resident memory went from %d to %d MiB", before>>20, after>>20)
	}
	n.Stop()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wantClosed sends bytes and waits for the other side to close. What it may
// send before that is bounded, a reset is a way of closing.
func wantClosed(t *testing.T, address string, bytes []byte) {
	t.Helper()
	conn := dial(t, address)
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(bytes); err != nil && !isReset(err) {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
	if err != nil && !isReset(err) {
		t.Errorf("after %d bytes: %v, want the end of the connection", got, err)
	}
	if !answers(address) {
		t.Error("the node does not answer others any more")
	}
}

func isReset(err error) bool {
	return strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "broken pipe")
}
