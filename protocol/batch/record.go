package batch

import (
	"encoding/binary"
	"iter"
)

// Record is one record. When it was read, Key, Value and Headers alias the
// buffer that they were read from.
//
// Layout, lengths and deltas as zigzag varints (KIP-98, DefaultRecord.java):
//
//	length            varint  bytes after this field
//	attributes        int8    unused
//	timestamp delta   varlong ms from the batch's base timestamp
//	offset delta      varint  from the batch's base offset
//	key length        varint  −1 = null, then the key
//	value length      varint  −1 = null, then the value
//	header count      varint
//	per header        varint key length and key, varint value length (−1 = null) and value
type Record struct {
	// OffsetDelta counts from the batch's base offset.
	OffsetDelta int32
	// Timestamp in ms since 1970, not a delta; −1 means none.
	Timestamp int64
	// Key and Value are nil where the record has none.
	Key, Value []byte
	Headers    Headers
}

// Header is one header of a record. A nil value is a null value.
type Header struct {
	Key   string
	Value []byte
}

// Headers are the headers of a record as they are encoded, so that they are
// copied as they are and cost nothing when nobody looks.
type Headers struct {
	count int32
	bytes []byte
}

// Len is the number of headers.
func (h Headers) Len() int { return int(h.count) }

// All yields the headers in order. It allocates a string per key.
func (h Headers) All() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		c := cursor{buf: h.bytes}
		for range h.count {
			key, value := c.bytes(), c.bytes()
			if c.bad || !yield(Header{Key: string(key), Value: value}) {
				return
			}
		}
	}
}

// appendBytes appends a length and the bytes, −1 and nothing for nil.
func appendBytes(dst, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}

// appendRecord appends a record in its encoding.
func appendRecord(dst []byte, r *Record, baseTimestamp int64) []byte {
	delta := r.Timestamp - baseTimestamp
	size := 1 + varintSize(delta) + varintSize(int64(r.OffsetDelta)) +
		bytesSize(r.Key) + bytesSize(r.Value) + varintSize(int64(r.Headers.count)) + len(r.Headers.bytes)
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, delta)
	dst = binary.AppendVarint(dst, int64(r.OffsetDelta))
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(r.Headers.count))
	return append(dst, r.Headers.bytes...)
}

func bytesSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

// varintSize is the number of bytes of a zigzag varint.
func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

// cursor reads the parts of a record from a buffer. After the first part that
// does not fit, bad is set and everything reads as zero.
type cursor struct {
	buf []byte
	bad bool
}

// varint reads a zigzag varint of at most 32 bits.
func (c *cursor) varint() int32 {
	v := c.varlong()
	if v != int64(int32(v)) {
		c.bad = true
		return 0
	}
	return int32(v)
}

// varlong reads a zigzag varint of at most 64 bits.
func (c *cursor) varlong() int64 {
	v, n := binary.Varint(c.buf)
	if n <= 0 {
		c.bad = true
		c.buf = nil
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

// byte reads one byte.
func (c *cursor) byte() byte {
	if len(c.buf) == 0 {
		c.bad = true
		return 0
	}
	v := c.buf[0]
	c.buf = c.buf[1:]
	return v
}

// bytes reads a length and that many bytes; nil for any negative length.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n < 0 || c.bad {
		return nil
	}
	if int(n) > len(c.buf) {
		c.bad = true
		c.buf = nil
		return nil
	}
	p := c.buf[:n:n] // not nil, even if empty
	c.buf = c.buf[n:]
	return p
}
