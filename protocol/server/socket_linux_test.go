package server

import (
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func control(t *testing.T, conn interface {
	SyscallConn() (syscall.RawConn, error)
}, f func(fd int) error,
) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// A connection's buffers are as large as the configuration says. The system
// doubles what it is asked for.
func TestSocketBuffers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s, err := New(Config{SendBuffer: 8192, ReceiveBuffer: 16384}, nil, nopLog)
	if err != nil {
		t.Fatal(err)
	}
	connect(t, ln.Addr().String())
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	newConn(s, 1, nc)
	for opt, want := range map[int]int{unix.SO_SNDBUF: 2 * 8192, unix.SO_RCVBUF: 2 * 16384} {
		control(t, nc.(*net.TCPConn), func(fd int) error {
			got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, opt)
			if got != want {
				t.Errorf("option %d is %d, want %d", opt, got, want)
			}
			return err
		})
	}
}

func TestSetBacklog(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := SetBacklog(ln, 7); err != nil {
		t.Fatal(err)
	}
	control(t, ln.(*net.TCPListener), func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Sacked != 7 { // where a listener has its backlog
			t.Errorf("the backlog is %d", info.Sacked)
		}
		return err
	})
	connect(t, ln.Addr().String())
	if nc, err := ln.Accept(); err != nil {
		t.Error(err)
	} else {
		_ = nc.Close()
	}
}
