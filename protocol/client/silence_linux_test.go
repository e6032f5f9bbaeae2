package client

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection asks after a silent host, and gives it up in time.
func TestSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := dialer(4*time.Second).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, option := range map[string]struct{ level, number, want int }{
		"user timeout": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 4000},
		"keep alive":   {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"idle":         {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1},
		"interval":     {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		"probes":       {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		var got int
		var failed error
		err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), option.level, option.number) })
		if err != nil || failed != nil || got != option.want {
			t.Errorf("%s: %d, want %d (%v, %v)", name, got, option.want, err, failed)
		}
	}
}
