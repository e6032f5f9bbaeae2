package storage

import (
	"encoding/binary"

	"github.com/klamm/klamm/protocol/batch"
)

// Types of the control records that end a transaction.
const (
	controlAbort  = 0
	controlCommit = 1
)

// parseEndMarker reads the one record of a control batch. It reports false for
// control records of another type and for what is no control record at all.
//
//	length varint, attributes int8, timestamp delta varlong, offset delta varint,
//	key length varint: int16 version (0), int16 type (0 abort, 1 commit)
//	value length varint: int16 version (0), int32 coordinator epoch
func parseEndMarker(b batch.Batch) (endMarker, bool) {
	if len(b) < batch.HeaderSize || b.RecordCount() != 1 || b.Codec() != batch.CodecNone {
		return endMarker{}, false
	}
	buf := b.Records()
	varint := func() int64 {
		v, n := binary.Varint(buf)
		if n <= 0 {
			buf = nil
			return -1
		}
		buf = buf[n:]
		return v
	}
	part := func() []byte {
		size := varint()
		if size < 0 || size > int64(len(buf)) {
			buf = nil
			return nil
		}
		p := buf[:size]
		buf = buf[size:]
		return p
	}
	varint() // length
	if len(buf) == 0 {
		return endMarker{}, false
	}
	buf = buf[1:] // attributes
	varint()      // timestamp delta
	varint()      // offset delta
	key, value := part(), part()
	if len(key) < 4 || len(value) < 6 {
		return endMarker{}, false
	}
	kind := binary.BigEndian.Uint16(key[2:])
	if kind != controlAbort && kind != controlCommit {
		return endMarker{}, false
	}
	return endMarker{
		abort:            kind == controlAbort,
		coordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:])),
	}, true
}
