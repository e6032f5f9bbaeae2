package batch

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compress appends src in the codec's format to dst, as Kafka's clients frame
// it: gzip with its header, snappy as one raw block, LZ4 and zstd as frames.
func Compress(codec Codec, dst, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		out := bytes.NewBuffer(dst)
		w := gzip.NewWriter(out)
		if _, err := w.Write(src); err != nil {
			return nil, err
		}
		err := w.Close()
		return out.Bytes(), err
	case CodecSnappy:
		return append(dst, snappy.Encode(nil, src)...), nil
	case CodecLZ4:
		out := bytes.NewBuffer(dst)
		w := lz4.NewWriter(out)
		// What Kafka writes: blocks of 64 KiB, independent, no checksums.
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			return nil, err
		}
		if _, err := w.Write(src); err != nil {
			return nil, err
		}
		err := w.Close()
		return out.Bytes(), err
	case CodecZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return w.EncodeAll(src, dst), nil
	default:
		return nil, fmt.Errorf("codec %d is unknown", codec)
	}
}
