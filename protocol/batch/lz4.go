package batch

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// LZ4 frame, little-endian (lz4_Frame_format.md):
//
//	magic          uint32  0x184D2204
//	flags          byte    bits below; the upper two are version 01
//	block maximum  byte    bits 4 to 6: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB
//	content size   uint64  if its flag is set
//	checksum       byte    second byte of the xxHash-32 of flags to content size
//	per block      uint32 size, its top bit set for stored bytes; then the block;
//	               then its xxHash-32 if that flag is set
//	end            uint32  0
//	checksum       uint32  of the content if its flag is set
//
// The frame is read here and not by the library's reader, since that one takes
// what Kafka's consumers do not: dependent blocks, the legacy format, several
// frames in a row, skippable frames.
const (
	lz4Magic            = 0x184D2204
	lz4Independent      = 1 << 5
	lz4BlockChecksum    = 1 << 4
	lz4ContentSize      = 1 << 3
	lz4ContentChecksum  = 1 << 2
	lz4ReservedOrDict   = 1<<1 | 1
	lz4ReservedOfMax    = 0x8f
	lz4Stored           = 1 << 31
	lz4ShortestHeader   = 7
	lz4VersionBits      = 0xc0
	lz4SupportedVersion = 0x40
)

var errLZ4 = errors.New("not an LZ4 frame")

type lz4Decoder struct {
	src       []byte
	flags     byte
	blockSize int
	block     []byte // decoded, kept for the next one up to keptBlock
	rest      []byte // of block or of stored bytes, unread
	ended     bool
}

func (d *lz4Decoder) reset(src []byte) error {
	d.src, d.rest, d.ended = nil, nil, false
	if len(src) < lz4ShortestHeader || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLZ4
	}
	flags, maximum := src[4], src[5]
	if flags&lz4VersionBits != lz4SupportedVersion || flags&lz4Independent == 0 || flags&lz4ReservedOrDict != 0 ||
		maximum&lz4ReservedOfMax != 0 || maximum < 4<<4 {
		return errLZ4
	}
	end := 6
	if flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(src) <= end || byte(xxHash32(src[4:end])>>8) != src[end] {
		return errLZ4
	}
	d.flags, d.blockSize, d.src = flags, 1<<(8+2*int(maximum>>4)), src[end+1:]
	return nil
}

func (d *lz4Decoder) close() {
	d.src, d.rest = nil, nil
	if cap(d.block) > keptBlock {
		d.block = nil
	}
}

func (d *lz4Decoder) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.ended {
			return 0, io.EOF
		}
		if err := d.nextBlock(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *lz4Decoder) nextBlock() error {
	head, err := d.take(4)
	if err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head)
	if size == 0 {
		return d.end()
	}
	stored := size&lz4Stored != 0
	size &^= lz4Stored
	if int64(size) > int64(d.blockSize) {
		return errLZ4
	}
	block, err := d.take(int(size))
	if err != nil {
		return err
	}
	if d.flags&lz4BlockChecksum != 0 {
		sum, err := d.take(4)
		if err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(sum) != xxHash32(block) {
			return errLZ4
		}
	}
	if stored {
		d.rest = block
		return nil
	}
	if d.blockSize > cap(d.block) {
		d.block = make([]byte, d.blockSize)
	}
	n, err := lz4.UncompressBlock(block, d.block[:d.blockSize])
	d.rest = d.block[:n]
	return err
}

// end reads what follows the last block. The checksum of the content is not
// checked: the batch has a CRC, and Kafka does not look at it either.
func (d *lz4Decoder) end() error {
	d.ended = true
	if d.flags&lz4ContentChecksum != 0 {
		if _, err := d.take(4); err != nil {
			return err
		}
	}
	if len(d.src) > 0 {
		return errLZ4
	}
	return nil
}

// take cuts n bytes off the payload.
func (d *lz4Decoder) take(n int) ([]byte, error) {
	if n > len(d.src) {
		return nil, io.ErrUnexpectedEOF
	}
	p := d.src[:n]
	d.src = d.src[n:]
	return p, nil
}

// xxHash32 is the 32-bit xxHash with seed 0.
func xxHash32(p []byte) uint32 {
	const (
		prime1 = 2654435761
		prime2 = 2246822519
		prime3 = 3266489917
		prime4 = 668265263
		prime5 = 374761393
	)
	n := uint32(len(p))
	h := uint32(prime5)
	if len(p) >= 16 {
		var seed uint32
		v := [4]uint32{seed + prime1 + prime2, seed + prime2, seed, seed - prime1}
		for ; len(p) >= 16; p = p[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(p[4*i:])*prime2, 13) * prime1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	}
	h += n
	for ; len(p) >= 4; p = p[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(p)*prime3, 17) * prime4
	}
	for _, b := range p {
		h = bits.RotateLeft32(h+uint32(b)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
