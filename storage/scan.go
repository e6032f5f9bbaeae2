package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// damage is a place in a log file where no batch is that could be there.
type damage struct {
	path     string
	position int64
	reason   string
}

// Error names the file and the position.
func (d *damage) Error() string {
	return fmt.Sprintf("%s: byte %d: %s", d.path, d.position, d.reason)
}

// Unwrap makes it a corrupt message for whoever reads.
func (d *damage) Unwrap() error { return protocol.ErrCorruptMessage }

// isDamage tells whether err is about the file's content, not about reading it.
func isDamage(err error) bool {
	if err == nil {
		return false
	}
	var d *damage
	return errors.As(err, &d)
}

// scanner walks the batches of a log file, reading it in pieces. It checks
// what framing needs, and the CRC where asked.
type scanner struct {
	f        io.ReaderAt
	dir      string // where the file is, and what
	base     int64
	suffix   string // of the name; "" = N.log
	position int64  // of the batch that next returns
	end      int64  // of the bytes that count
	checkCRC bool

	buf    []byte
	at     int64  // position of buf in the file
	whole  bool   // the last batch was returned with its records
	header []byte // of a batch that does not fit the buffer
}

// crcStart is where the bytes begin that a batch's CRC covers.
const crcStart = 21

// scanBuffers are for reading a log from end to end.
var scanBuffers = sync.Pool{New: func() any { return new([scanSize]byte) }}

const scanSize = 128 << 10

// next returns the batch at position and moves behind it. The batch is valid
// until the next call; it is only the header where it is larger than the
// buffer. io.EOF is the end, a *damage what is no batch.
func (s *scanner) next() (batch.Batch, error) {
	if s.position >= s.end {
		return nil, io.EOF
	}
	header, err := s.bytes(s.position, batch.HeaderSize)
	if err != nil {
		return nil, err
	}
	b := batch.Batch(header)
	size := int64(b.Size())
	switch {
	case b.Magic() != 2:
		return nil, s.damage("magic is %d, not 2", b.Magic())
	case size < batch.HeaderSize:
		return nil, s.damage("length %d is too small for a batch", size-batch.FrameSize)
	case s.position+size > s.end:
		return nil, s.damage("a batch of %d bytes does not fit the %d that follow", size, s.end-s.position)
	case b.LastOffsetDelta() < 0 || b.BaseOffset() < 0:
		return nil, s.damage("offsets %d + %d are negative", b.BaseOffset(), b.LastOffsetDelta())
	}
	if s.whole = s.checkCRC && size <= int64(cap(s.buf)); s.whole {
		if header, err = s.bytes(s.position, int(size)); err != nil {
			return nil, err
		}
		b = header
	}
	if s.checkCRC {
		if b, err = s.checkedCRC(b, size); err != nil {
			return nil, err
		}
	}
	s.position += size
	return b, nil
}

// bytes returns n bytes of the file, which fit the buffer.
func (s *scanner) bytes(position int64, n int) ([]byte, error) {
	if position >= s.at && position+int64(n) <= s.at+int64(len(s.buf)) {
		return s.buf[position-s.at:][:n], nil
	}
	if position+int64(n) > s.end {
		return nil, s.damage("%d bytes are left, too few for a batch", s.end-position)
	}
	want := min(int64(cap(s.buf)), s.end-position)
	s.buf = s.buf[:want]
	got, err := s.f.ReadAt(s.buf, position)
	s.at, s.buf = position, s.buf[:got]
	if got < n {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, s.damage("the file ends here")
		}
		return nil, fmt.Errorf("read %s at %d: %w", s.path(), position, err)
	}
	return s.buf[:n], nil
}

// checkedCRC returns the batch, or its header where it is not whole, if its CRC
// is that of its bytes.
func (s *scanner) checkedCRC(b batch.Batch, size int64) (batch.Batch, error) {
	crc := uint32(0)
	if s.whole {
		crc = b.ComputeCRC()
	} else {
		s.header = append(s.header[:0], b...)
		b = s.header
		crc = crc32.Checksum(b[crcStart:], castagnoli)
		for done := int64(batch.HeaderSize); done < size; {
			n := int(min(size-done, int64(cap(s.buf))))
			p, err := s.bytes(s.position+done, n)
			if err != nil {
				return nil, err
			}
			crc = crc32.Update(crc, castagnoli, p)
			done += int64(n)
		}
	}
	if crc != b.CRC() && broken != brokenCRC {
		return nil, s.damage("CRC is %08x, but the bytes give %08x", b.CRC(), crc)
	}
	return b, nil
}

// path returns the file's, for an error: a walk that finds none does not pay
// for it.
func (s *scanner) path() string {
	suffix := s.suffix
	if suffix == "" {
		suffix = logSuffix
	}
	return filepath.Join(s.dir, fileName(s.base, suffix))
}

func (s *scanner) damage(format string, args ...any) error {
	return &damage{path: s.path(), position: s.position, reason: fmt.Sprintf(format, args...)}
}

// records returns the batch that next has just returned as a whole.
func (s *scanner) records(b batch.Batch) (batch.Batch, error) {
	if s.whole {
		return b, nil
	}
	all := make([]byte, b.Size())
	if n, err := s.f.ReadAt(all, s.position-int64(len(all))); n < len(all) {
		return nil, fmt.Errorf("read %s at %d: %w", s.path(), s.position-int64(len(all)), err)
	}
	return all, nil
}

// jump moves to the batch that an index entry names. It reports false, and
// stays, where that is none: then the index is wrong, and the records are to
// be found without it.
func (s *scanner) jump(e entry) (bool, error) {
	if e.b >= s.end {
		return false, nil
	}
	from := s.position
	s.position = e.b
	b, err := s.next()
	switch {
	case err == nil && b.LastOffset() == s.base+e.a:
		s.position = e.b
		return true, nil
	case err == nil || isDamage(err):
		s.position = from
		return false, nil
	}
	return false, err
}
