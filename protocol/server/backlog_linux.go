package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// SetBacklog sets how many connections of a TCP listener the system completes
// before they are accepted (socket.listen.backlog.size); it has a maximum of its
// own, which net.Listen takes.
func SetBacklog(ln net.Listener, n int) error {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var listenErr error
	if err := raw.Control(func(fd uintptr) { listenErr = unix.Listen(int(fd), n) }); err != nil {
		return err
	}
	return listenErr
}
