package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klamm/klamm/protocol"
)

// maxDecompressed is how much the records of a batch may decompress to. Memory
// needs no such bound, processor time does: a MiB of zstd can hold 30 GiB. Kafka
// has none, but no consumer of its own holds more than an int counts.
const maxDecompressed = 1<<31 - 1

// ErrDecompressedSize: the records decompress to more than is allowed.
var ErrDecompressedSize = fmt.Errorf("records decompress to too many bytes: %w", protocol.ErrMessageTooLarge)

// errRecords: the records are not what the header says of them.
var errRecords = fmt.Errorf("records do not parse: %w", protocol.ErrInvalidRecord)

// window is how much of the decompressed records is in memory at a time, as
// long as nobody wants a larger record as a whole.
const window = 64 << 10

// stream reads the records of a batch, decompressing them bit by bit. Plain
// records are read where they are.
type stream struct {
	// buf is what has been decompressed and not read.
	buf []byte
	// rem is what is left of the record being read; −1 or less says that it
	// is shorter than its parts.
	rem int
	// maxRecord is the largest length of a record; 0 stands for any.
	maxRecord int
	// err is why there is no more, io.EOF aside.
	err error

	// The rest is unused for plain records.
	codec Codec
	dec   decoder
	left  int64  // decompressed bytes that may still come
	win   []byte // what buf is part of
	grown bool   // win is larger than window
	ended bool
}

var streams = sync.Pool{New: func() any { return &stream{win: make([]byte, window)} }}

// plainStream returns a stream of plain records, by value: it needs no close.
func plainStream(records []byte) stream { return stream{buf: records, ended: true} }

// openStream returns a stream of compressed records, which ends with an error
// behind limit bytes. close must follow.
func openStream(codec Codec, records []byte, limit int64) (*stream, error) {
	dec, err := openDecoder(codec, records)
	if err != nil {
		return nil, err
	}
	s := streams.Get().(*stream)
	*s = stream{codec: codec, dec: dec, left: limit, win: s.win}
	return s, nil
}

func (s *stream) close() {
	closeDecoder(s.codec, s.dec)
	s.dec = nil
	if !s.grown {
		streams.Put(s)
	}
}

// more makes buf longer, which must be shorter than win. It returns false at the
// end, and after an error.
func (s *stream) more() bool {
	if s.ended {
		return false
	}
	n := copy(s.win, s.buf)
	s.buf = s.win[:n]
	for {
		m, err := s.dec.Read(s.win[n:])
		s.left -= int64(m)
		switch {
		case s.left < 0:
			s.fail(ErrDecompressedSize)
			return false
		case m > 0 && (err == nil || errors.Is(err, io.EOF)):
			s.buf = s.win[:n+m]
			return true
		case errors.Is(err, io.EOF):
			s.ended = true
			return false
		case err != nil:
			s.fail(fmt.Errorf("%w: %s: %w", ErrCodec, s.codec, err))
			return false
		}
	}
}

// fail ends the stream: what is buffered is not trusted either.
func (s *stream) fail(err error) {
	s.ended, s.err, s.buf = true, err, nil
}

// ensure makes buf hold at least n bytes, if there are as many.
func (s *stream) ensure(n int) bool {
	for len(s.buf) < n {
		if n > len(s.win) && !s.ended {
			// Doubling: a claimed length allocates no more than twice what is there.
			s.win = append(make([]byte, 0, min(2*len(s.win), n)), s.buf...)
			s.win = s.win[:cap(s.win)]
			s.buf = s.win[:len(s.buf)]
			s.grown = true
		}
		if !s.more() {
			return false
		}
	}
	return true
}

// atEnd tells whether nothing follows.
func (s *stream) atEnd() bool { return len(s.buf) == 0 && !s.more() && s.err == nil }

// varlong reads a zigzag varint and takes its bytes off rem. At the end it
// reads as zero and leaves rem negative.
func (s *stream) varlong() int64 {
	if len(s.buf) > 0 && s.buf[0] < 0x80 { // most are one byte
		u := s.buf[0]
		s.buf = s.buf[1:]
		s.rem--
		return int64(u>>1) ^ -int64(u&1)
	}
	if len(s.buf) < binary.MaxVarintLen64 && !s.ended {
		s.ensure(binary.MaxVarintLen64)
	}
	v, n := binary.Varint(s.buf)
	if n <= 0 {
		s.rem = -1
		return 0
	}
	s.buf = s.buf[n:]
	s.rem -= n
	return v
}

// length reads a zigzag varint of 32 bits.
func (s *stream) length() int {
	v := s.varlong()
	if v != int64(int32(v)) {
		s.rem = -1
		return 0
	}
	return int(v)
}

// skip steps over n bytes of the record; over none if n is negative.
func (s *stream) skip(n int) {
	if n <= 0 {
		return
	}
	if s.rem -= n; s.rem < 0 {
		return
	}
	for n > len(s.buf) {
		n -= len(s.buf)
		s.buf = nil
		if !s.more() {
			s.rem = -1
			return
		}
	}
	s.buf = s.buf[n:]
}

// recordHead is what validation looks at in a record.
type recordHead struct {
	timestampDelta int64
	offsetDelta    int
	hasKey         bool
}

// record steps over one record, whatever its size, and returns its head.
func (s *stream) record() (recordHead, error) {
	var h recordHead
	s.rem = binary.MaxVarintLen64
	size := s.length()
	if s.rem < 0 || size < 0 || s.maxRecord > 0 && size > s.maxRecord {
		return h, s.bad()
	}
	s.rem = size
	s.skip(1) // attributes
	h.timestampDelta = s.varlong()
	h.offsetDelta = s.length()
	key := s.length()
	h.hasKey = key >= 0
	s.skip(key)
	s.skip(s.length())
	headers := s.length()
	if headers < 0 {
		return h, s.bad()
	}
	for ; headers > 0 && s.rem > 0; headers-- {
		key := s.length()
		if key < 0 {
			return h, s.bad()
		}
		s.skip(key)
		s.skip(s.length())
	}
	if s.rem != 0 || headers > 0 {
		return h, s.bad()
	}
	return h, nil
}

// bad returns why a record could not be read.
func (s *stream) bad() error {
	if s.err != nil {
		return s.err
	}
	return errRecords
}
