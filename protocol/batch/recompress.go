package batch

import (
	"encoding/binary"
	"fmt"
	"runtime"
)

// Packing anew holds the records of a batch as a whole. So only few batches are
// at a time, and one of those that decompress to more than smallRecompress.
const smallRecompress = 4 << 20

var (
	recompressing      = make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	recompressingLarge = make(chan struct{}, 1)
)

// Recompress returns the batch with its records in another codec, at a level as
// Compress takes it, in a buffer of its own. The header is kept but for length,
// codec and CRC: the records have been validated and stay what they are, byte for
// byte. recordBytes is what validation found them to have (Result.RecordBytes).
func Recompress(b Batch, codec Codec, level int, recordBytes int64) (Batch, error) {
	slots := recompressing
	if recordBytes > smallRecompress {
		slots = recompressingLarge
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	plain := b.Records()
	if b.Codec() != CodecNone {
		var err error
		if plain, err = Decompress(b.Codec(), make([]byte, 0, recordBytes), plain, recordBytes); err != nil {
			return nil, fmt.Errorf("decompress %s: %w", b.Codec(), err)
		}
	}
	out := make([]byte, HeaderSize, HeaderSize+min(len(plain), 64<<10))
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
