package batch

import (
	"encoding/binary"
	"fmt"
)

// Recompress returns the batch with its records in another codec, at a level as
// Compress takes it, in a buffer of its own. The header is kept but for length, codec and CRC: the records have
// been validated and stay what they are, byte for byte.
func Recompress(b Batch, codec Codec, level int, limit int64) (Batch, error) {
	plain := b.Records()
	if b.Codec() != CodecNone {
		var err error
		if plain, err = Decompress(b.Codec(), nil, plain, limit); err != nil {
			return nil, fmt.Errorf("decompress %s: %w", b.Codec(), err)
		}
	}
	out := make([]byte, HeaderSize, HeaderSize+len(plain))
	copy(out, b[:HeaderSize])
	out, err := Compress(codec, level, out, plain)
	if err != nil {
		return nil, fmt.Errorf("compress with %s: %w", codec, err)
	}
	binary.BigEndian.PutUint32(out[offsetLength:], uint32(len(out)-FrameSize))
	binary.BigEndian.PutUint16(out[offsetAttributes:], uint16(b.Attributes()&^codecMask|int16(codec)))
	Batch(out).SetCRC()
	return out, nil
}
