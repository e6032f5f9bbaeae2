//go:build integration

package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// conn is one connection that sends what no client library would, in the order
// and the versions that a test says.
type conn struct {
	t       *testing.T
	netConn net.Conn
	r       *bufio.Reader
	lastID  int32
	waiting []kmsg.Request // sent and not answered, oldest first
}

func dial(t *testing.T, address string) *conn {
	t.Helper()
	c, err := tryDial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryDial(t *testing.T, address string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { nc.Close() })
	return &conn{t: t, netConn: nc, r: bufio.NewReader(nc)}, nil
}

// send sends a request without waiting for anything.
func (c *conn) send(version int16, req kmsg.Request) {
	c.t.Helper()
	req.SetVersion(version)
	c.lastID++
	frame := []byte{0, 0, 0, 0}
	frame = protocol.AppendRequestHeader(frame, req.Key(), version, c.lastID, "faults")
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_ = c.netConn.SetDeadline(time.Now().Add(patience))
	if _, err := c.netConn.Write(frame); err != nil {
		c.t.Fatalf("send %s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	c.waiting = append(c.waiting, req)
}

// receive reads the answer to the oldest request that has none. It fails the
// test where the connection ends instead.
func (c *conn) receive() kmsg.Response {
	c.t.Helper()
	req := c.waiting[0]
	body, err := c.receiveBody()
	if err != nil {
		c.t.Fatalf("answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("answer to %s v%d is not in its format: %v\n% x", kmsg.NameForKey(req.Key()), req.GetVersion(), err, body)
	}
	return resp
}

// receiveBody reads the next answer and takes its header off.
func (c *conn) receiveBody() ([]byte, error) {
	req := c.waiting[0]
	c.waiting = c.waiting[1:]
	_ = c.netConn.SetDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.r, frame); err != nil {
		return nil, err
	}
	id, body, err := protocol.ParseResponseHeader(frame, req.Key(), req.GetVersion())
	if want := c.lastID - int32(len(c.waiting)); err == nil && id != want {
		c.t.Fatalf("answer to request %d, not to %d", id, want)
	}
	return body, err
}

// wantClosed waits for the other side to close the connection without a word.
func (c *conn) wantClosed() {
	c.t.Helper()
	_ = c.netConn.SetDeadline(time.Now().Add(patience))
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("%v, want the end of the connection", err)
	}
}

// ask sends a request and reads its answer. R is its type.
func ask[R kmsg.Response](c *conn, version int16, req kmsg.Request) R {
	c.t.Helper()
	c.send(version, req)
	return answer[R](c)
}

// answer reads an answer of a known type.
func answer[R kmsg.Response](c *conn) R {
	c.t.Helper()
	resp := c.receive()
	r, ok := resp.(R)
	if !ok {
		c.t.Fatalf("answer is a %T", resp)
	}
	return r
}

// wantCode compares an error code.
func wantCode(t *testing.T, what string, got int16, want ...protocol.Error) {
	t.Helper()
	var names []string
	for _, w := range want {
		if got == int16(w) {
			return
		}
		names = append(names, w.Error())
	}
	t.Errorf("%s: %s (%d), want %s", what, protocol.Error(got), got, strings.Join(names, " or "))
}

// eventually asks until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %s", patience, what)
		}
	}
}
