package server

import (
	"encoding/binary"

	"github.com/klamm/klamm/protocol"
)

// Decoding makes a struct of every element of an array, and elements may be a
// byte or two on the wire: a frame of empty elements with a tagged field each
// takes up to eighty times its size when decoded. So what counts is a request's
// structure, its bytes without the record batches of a Produce, which are not
// copied:
//
//   - Structure is bounded by maxStructure, above what clients send: a fetch of
//     100,000 topics has 5 MB. Kafka takes socket.request.max.bytes of
//     everything; beyond the bound we close.
//   - Above freeStructure, decodedPerByte times its size is taken from the
//     budget for decoding before it is decoded.
const (
	maxStructure   = 8 << 20
	freeStructure  = 64 << 10
	decodedPerByte = 80
)

// structureSize returns the bytes of a request's body that are structure; ok
// is false where the body cannot be read.
func structureSize(key, version int16, body []byte) (n int, ok bool) {
	if key != protocol.KeyProduce {
		return len(body), true
	}
	info, _ := protocol.API(key)
	w := walker{buf: body, flexible: info.IsFlexible(version)}
	records := 0
	w.skip(w.stringLength()) // transactional id
	w.skip(2 + 4)            // acks, timeout
	for topics := w.arrayLength(); topics > 0 && !w.bad; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.stringLength())
		}
		for partitions := w.arrayLength(); partitions > 0 && !w.bad; partitions-- {
			w.skip(4)
			size := w.bytesLength()
			w.skip(size)
			records += max(size, 0)
			w.tags()
		}
		w.tags()
	}
	return len(body) - records, !w.bad
}

// walker steps over the parts of a body. Negative lengths are nulls.
type walker struct {
	buf      []byte
	flexible bool
	bad      bool
}

func (w *walker) skip(n int) {
	if n > len(w.buf) {
		w.bad = true
		w.buf = nil
		return
	}
	w.buf = w.buf[max(n, 0):]
}

// fixed reads a big-endian integer of size bytes.
func (w *walker) fixed(size int) int {
	if len(w.buf) < size {
		w.bad = true
		w.buf = nil
		return 0
	}
	p := w.buf[:size]
	w.buf = w.buf[size:]
	if size == 2 {
		return int(int16(binary.BigEndian.Uint16(p)))
	}
	return int(int32(binary.BigEndian.Uint32(p)))
}

func (w *walker) uvarint() int {
	v, n := binary.Uvarint(w.buf)
	if n <= 0 || v > 1<<32-1 {
		w.bad = true
		w.buf = nil
		return 0
	}
	w.buf = w.buf[n:]
	return int(v)
}

func (w *walker) length(size int) int {
	if w.flexible {
		return int(int32(uint32(w.uvarint()))) - 1
	}
	return w.fixed(size)
}

func (w *walker) stringLength() int { return w.length(2) }
func (w *walker) bytesLength() int  { return w.length(4) }
func (w *walker) arrayLength() int  { return w.length(4) }

// tags steps over tagged fields.
func (w *walker) tags() {
	if !w.flexible {
		return
	}
	for count := w.uvarint(); count > 0 && !w.bad; count-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
