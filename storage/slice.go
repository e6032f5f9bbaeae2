package storage

import (
	"io"
	"os"
)

// Slice is a run of whole batches in one segment's file. It holds the file, so
// its bytes stay what they are until Release, whatever happens to the log.
type Slice struct {
	file     *handle // nil for an empty slice
	position int64
	size     int
}

// emptySlice is every slice of nothing.
var emptySlice = &Slice{}

// Size is the number of bytes.
func (s *Slice) Size() int { return s.size }

// ReadAt reads bytes of the slice; off counts from its start.
func (s *Slice) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(s.size) {
		return 0, io.EOF
	}
	short := int64(len(p)) > int64(s.size)-off
	if short {
		p = p[:int64(s.size)-off]
	}
	n, err := s.file.ReadAt(p, s.position+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// File returns the file and the position of the slice in it, for sendfile; it
// reports false where there is no file of the operating system.
func (s *Slice) File() (*os.File, int64, bool) {
	if s.file == nil {
		return nil, 0, false
	}
	f := s.file.OS()
	return f, s.position, f != nil
}

// Release lets the file go. It is called once; the slice is of no use afterwards.
func (s *Slice) Release() {
	if s.file != nil {
		s.file.release()
	}
}

// Bytes reads the whole slice into a new buffer.
func (s *Slice) Bytes() ([]byte, error) {
	p := make([]byte, s.size)
	if s.size == 0 {
		return p, nil
	}
	n, err := s.file.ReadAt(p, s.position)
	if n < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return p, nil
}
