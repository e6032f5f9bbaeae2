package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/snappy"
)

// Two framings of snappy are in use: one raw block (librdkafka, franz-go), and
// the stream of snappy-java, which Kafka's own client writes and reads:
//
//	magic        8 bytes  82 "SNAPPY" 00
//	version      int32    big-endian, as the lengths
//	compatible   int32
//	per block    int32 length, then a raw block
//
// snappy-java repeats the 16 bytes in front of a block where streams were joined.
var xerialMagic = []byte("\x82SNAPPY\x00")

const xerialHeader = 16

var errSnappy = errors.New("not a snappy block")

// maxSnappyRatio bounds what a block may claim: its densest element makes 64
// bytes of 3. So the claim allocates in proportion to what was sent.
const maxSnappyRatio = 22

type snappyDecoder struct {
	src    []byte
	xerial bool
	block  []byte // decoded, kept for the next one up to keptBlock
	rest   []byte // of block, unread
}

// keptBlock is the largest buffer that a pooled decoder keeps.
const keptBlock = 1 << 20

func (d *snappyDecoder) reset(src []byte) error {
	d.src, d.rest = src, nil
	d.xerial = bytes.HasPrefix(src, xerialMagic)
	return nil
}

func (d *snappyDecoder) close() {
	d.src, d.rest = nil, nil
	if cap(d.block) > keptBlock {
		d.block = nil
	}
}

func (d *snappyDecoder) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		block, err := d.nextBlock()
		if err != nil {
			return 0, err
		}
		if err := d.decode(block); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// nextBlock cuts the next raw block off the payload.
func (d *snappyDecoder) nextBlock() ([]byte, error) {
	if len(d.src) == 0 {
		return nil, io.EOF
	}
	if !d.xerial {
		block := d.src
		d.src = nil
		return block, nil
	}
	for bytes.HasPrefix(d.src, xerialMagic) {
		if len(d.src) < xerialHeader {
			return nil, io.ErrUnexpectedEOF
		}
		d.src = d.src[xerialHeader:]
	}
	if len(d.src) == 0 {
		return nil, io.EOF
	}
	if len(d.src) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int32(binary.BigEndian.Uint32(d.src))
	if n < 0 || int64(n) > int64(len(d.src)-4) {
		return nil, io.ErrUnexpectedEOF
	}
	block := d.src[4 : 4+n]
	d.src = d.src[4+n:]
	return block, nil
}

func (d *snappyDecoder) decode(block []byte) error {
	size, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	if size > maxSnappyRatio*len(block) || !isSnappy(block) {
		return errSnappy
	}
	if size > cap(d.block) {
		d.block = make([]byte, size)
	}
	d.rest, err = snappy.Decode(d.block[:size], block)
	return err
}

// isSnappy tells whether a block has only elements that snappy knows. The
// decoder also takes those of S2, which Kafka's consumers cannot read: there
// a copy from offset 0 means a repetition.
func isSnappy(block []byte) bool {
	_, n := binary.Uvarint(block)
	for p := block[n:]; len(p) > 0; {
		tag := p[0]
		size, offset := 0, 1
		switch tag & 3 {
		case 0:
			size = 1 + int(tag>>2) + 1
			if extra := int(tag>>2) - 59; extra > 0 {
				if len(p) <= extra {
					return false
				}
				length := 0
				for i := extra; i > 0; i-- {
					length = length<<8 | int(p[i])
				}
				size = 1 + extra + length + 1
			}
		case 1:
			if size = 2; len(p) >= size {
				offset = int(tag>>5)<<8 | int(p[1])
			}
		case 2:
			if size = 3; len(p) >= size {
				offset = int(binary.LittleEndian.Uint16(p[1:]))
			}
		case 3:
			if size = 5; len(p) >= size {
				offset = int(binary.LittleEndian.Uint32(p[1:]))
			}
		}
		if size > len(p) || offset == 0 {
			return false
		}
		p = p[size:]
	}
	return true
}
