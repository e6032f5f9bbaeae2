package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/klamm/klamm/protocol"
)

// maxHeld is the largest record that Each gives out of a compressed batch. A KiB
// can hold a record of a GiB, and somebody may have produced it.
const maxHeld = 256 << 20

var errHeld = fmt.Errorf("a record decompresses to more than %d bytes: %w", maxHeld, protocol.ErrRecordListTooLarge)

// Each calls each with the batch's records in order and returns its first
// error. Key, Value and Headers are valid until it returns. The CRC is not
// looked at. While it runs it holds one of the few decoders if the batch is
// compressed: each must not wait for long nor walk another batch.
func (b Batch) Each(each func(Record) error) error {
	if b.Codec() == CodecNone {
		s := plainStream(b.Records())
		return b.each(&s, each)
	}
	s, err := openStream(b.Codec(), b.Records(), maxDecompressed)
	if err != nil {
		return err
	}
	defer s.close()
	return b.each(s, each)
}

func (b Batch) each(s *stream, each func(Record) error) error {
	base, appendTime := b.BaseTimestamp(), b.IsAppendTime()
	for range b.RecordCount() {
		s.rem = binary.MaxVarintLen64
		size := s.length()
		if size > maxHeld && s.codec != CodecNone {
			return errHeld
		}
		if s.rem < 0 || size < 0 || !s.ensure(size) {
			return s.bad()
		}
		r, ok := parseRecord(s.buf[:size:size], base)
		if !ok {
			return errRecords
		}
		if appendTime {
			r.Timestamp = b.MaxTimestamp()
		}
		if err := each(r); err != nil {
			return err
		}
		s.buf = s.buf[size:]
	}
	if !s.atEnd() {
		return s.bad()
	}
	return nil
}

// EachTime calls each with the place and the time of the batch's records in order
// and returns its first error. Unlike Each it holds no record, whatever its size.
func (b Batch) EachTime(each func(offsetDelta int32, timestampMs int64) error) error {
	if b.Codec() == CodecNone {
		s := plainStream(b.Records())
		return b.eachTime(&s, each)
	}
	s, err := openStream(b.Codec(), b.Records(), maxDecompressed)
	if err != nil {
		return err
	}
	defer s.close()
	return b.eachTime(s, each)
}

func (b Batch) eachTime(s *stream, each func(int32, int64) error) error {
	base, appendTime := b.BaseTimestamp(), b.IsAppendTime()
	for range b.RecordCount() {
		h, err := s.record()
		if err != nil {
			return err
		}
		timestamp := base + h.timestampDelta
		if appendTime {
			timestamp = b.MaxTimestamp()
		}
		if err := each(int32(h.offsetDelta), timestamp); err != nil {
			return err
		}
	}
	if !s.atEnd() {
		return s.bad()
	}
	return nil
}

// parseRecord reads a record from its bytes behind the length.
func parseRecord(p []byte, baseTimestamp int64) (Record, bool) {
	c := cursor{buf: p}
	c.byte()
	r := Record{Timestamp: baseTimestamp + c.varlong(), OffsetDelta: c.varint()}
	r.Key, r.Value = c.bytes(), c.bytes()
	r.Headers = Headers{count: c.varint(), bytes: c.buf}
	if r.Headers.count < 0 {
		return r, false
	}
	for n := r.Headers.count; n > 0 && !c.bad; n-- {
		if c.bytes() == nil { // a key may be empty, not null
			return r, false
		}
		c.bytes()
	}
	return r, !c.bad && len(c.buf) == 0
}
