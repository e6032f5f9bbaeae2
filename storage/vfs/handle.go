package vfs

import (
	"io"
	"io/fs"
)

// handle is what an open file knows beside the file itself, where that is in memory.
// The lock of its file system guards it.
type handle struct {
	path     string
	writable bool
	closed   bool
}

func (h *handle) checkLocked(op string, write bool) error {
	switch {
	case h.closed:
		return &fs.PathError{Op: op, Path: h.path, Err: fs.ErrClosed}
	case write && !h.writable:
		return &fs.PathError{Op: op, Path: h.path, Err: fs.ErrPermission}
	}
	return nil
}

// readAt reads from a file that holds data, as io.ReaderAt says.
func readAt(data, p []byte, off int64) (int, error) {
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
