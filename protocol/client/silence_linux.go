package client

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// userTimeout bounds how long what was sent may stay unacknowledged. A system that
// does not know the option goes by its own bound.
func userTimeout(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}
