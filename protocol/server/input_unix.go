//go:build unix

package server

import (
	"io"
	"os"
	"syscall"
)

// canTry tells that tryRead works here.
const canTry = true

// tryRead reads what is there, into a buffer that it takes only now and gives
// back where nothing is: whoever waits holds none. It is called by RawConn.Read,
// again each time that there may be something.
func (in *input) tryRead(fd uintptr) bool {
	in.hold()
	for {
		n, err := syscall.Read(int(fd), in.buf[in.w:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			if in.r == in.w {
				in.release()
			}
			return false
		case err != nil:
			in.err = os.NewSyscallError("read", err)
		case n == 0:
			in.err = io.EOF
		default:
			in.n = n
		}
		return true
	}
}
