package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/klamm/klamm/protocol/batch"
)

// maxBatchSize bounds a batch of a metadata log or checkpoint. Kafka writes at
// most 8 MiB, klamm 1 MiB; the rest is room for headers.
const maxBatchSize = 9 << 20

// Scanner cuts a file of the metadata log, or a checkpoint, into its batches
// and checks their CRCs.
type Scanner struct {
	src  io.Reader
	buf  []byte
	pos  int64 // of what is read next
	last int64 // position of the batch that Next returned
}

// NewScanner returns a Scanner that reads src from its beginning.
func NewScanner(src io.Reader) *Scanner { return &Scanner{src: src} }

// Position is the byte position of the batch that Next returned last, or of the
// place where it failed.
func (s *Scanner) Position() int64 { return s.last }

// Next returns the next batch, which is valid until the next call. The error is
// io.EOF behind the last one, and one of protocol/batch (ErrIncomplete where
// src ends within a batch) or of src itself otherwise.
func (s *Scanner) Next() (batch.Batch, error) {
	s.last = s.pos
	s.buf = s.buf[:0]
	if err := s.fill(batch.FrameSize); err != nil {
		if len(s.buf) == 0 && errors.Is(err, batch.ErrIncomplete) {
			return nil, io.EOF
		}
		return nil, err
	}
	size, err := batch.PeekSize(s.buf)
	if err != nil {
		return nil, err
	}
	if size > maxBatchSize {
		return nil, fmt.Errorf("a batch of %d bytes, more than %d: %w", size, maxBatchSize, batch.ErrLength)
	}
	if err := s.fill(size); err != nil {
		return nil, err
	}
	b, _, err := batch.Next(s.buf)
	if err != nil {
		return nil, err
	}
	if err := b.CheckCRC(); err != nil {
		return nil, err
	}
	s.pos += int64(size)
	return b, nil
}

// fill reads until buf holds size bytes. It takes memory as bytes arrive, not
// as a length claims them.
func (s *Scanner) fill(size int) error {
	const step = 64 << 10
	for len(s.buf) < size {
		at := len(s.buf)
		want := min(size-at, max(step, at))
		s.buf = append(s.buf, make([]byte, want)...)
		n, err := io.ReadFull(s.src, s.buf[at:])
		s.buf = s.buf[:at+n]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return batch.ErrIncomplete
		}
		if err != nil {
			return err
		}
	}
	return nil
}
