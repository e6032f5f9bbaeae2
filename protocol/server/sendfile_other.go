//go:build !linux

package server

import (
	"io"
	"os"
	"syscall"
)

// sendfile copies n bytes of f from pos to the client.
func (c *Conn) sendfile(f *os.File, pos int64, n int) error {
	buf := getBuffer(readChunk)
	defer putBuffer(buf)
	section := io.NewSectionReader(f, pos, int64(n))
	for n > 0 {
		m, err := io.ReadFull(section, (*buf)[:min(n, readChunk)])
		if err != nil {
			return err
		}
		c.setWriteDeadline()
		if _, err := c.netConn.Write((*buf)[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

func setCork(syscall.RawConn, bool) {}
