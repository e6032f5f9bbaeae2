package batch

import (
	"errors"
	"fmt"

	"github.com/klamm/klamm/protocol"
)

// errRecords: the records are not what the header says of them.
var errRecords = fmt.Errorf("batch's records can not be read: %w", protocol.ErrInvalidRecord)

// Each calls each with the batch's records in order, and returns its first
// error. Key, Value and Headers alias the batch. The CRC is not looked at.
func (b Batch) Each(each func(Record) error) error {
	if b.Codec() != CodecNone {
		return errors.New("batch is compressed")
	}
	c := cursor{buf: b.Records()}
	for range b.RecordCount() {
		size := c.varint()
		if c.bad || size < 0 || int(size) > len(c.buf) {
			return errRecords
		}
		body := cursor{buf: c.buf[:size:size]}
		c.buf = c.buf[size:]
		body.byte()
		r := Record{Timestamp: b.BaseTimestamp() + body.varlong()}
		r.OffsetDelta = body.varint()
		r.Key, r.Value = body.bytes(), body.bytes()
		r.Headers.count = body.varint()
		r.Headers.bytes = body.buf
		if body.bad {
			return errRecords
		}
		if err := each(r); err != nil {
			return err
		}
	}
	if len(c.buf) > 0 {
		return errRecords
	}
	return nil
}
