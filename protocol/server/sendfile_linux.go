package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfile sends n bytes of f from pos. The offset is explicit: the file's own
// position is shared by everyone who reads it.
func (c *Conn) sendfile(f *os.File, pos int64, n int) error {
	for n > 0 {
		c.setWriteDeadline()
		var sent int
		var sendErr error
		err := c.tcpRaw.Write(func(fd uintptr) bool {
			off := pos
			sent, sendErr = unix.Sendfile(int(fd), int(f.Fd()), &off, n)
			return !errors.Is(sendErr, unix.EAGAIN)
		})
		if err == nil && !errors.Is(sendErr, unix.EINTR) {
			err = sendErr
		}
		if err == nil && sent == 0 && sendErr == nil {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("sendfile %d bytes at %d: %w", n, pos, err)
		}
		if sent > 0 {
			pos += int64(sent)
			n -= sent
		}
	}
	return nil
}

// setCork holds back packets that are not full while it is on. A failure costs
// only some packets.
func setCork(raw syscall.RawConn, on bool) {
	value := 0
	if on {
		value = 1
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, value)
	})
}
