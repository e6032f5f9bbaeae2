package batch

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"

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
		w := gzipWriters.Get().(*gzip.Writer)
		defer gzipWriters.Put(w)
		return writeAll(w, dst, src)
	case CodecSnappy:
		dst = slices.Grow(dst, snappy.MaxEncodedLen(len(src)))
		n := len(snappy.Encode(dst[len(dst):cap(dst)], src))
		return dst[:len(dst)+n], nil
	case CodecLZ4:
		w := lz4Writers.Get().(*lz4.Writer)
		defer lz4Writers.Put(w)
		return writeAll(w, dst, src)
	case CodecZstd:
		w, err := zstdWriter()
		if err != nil {
			return nil, err
		}
		return w.EncodeAll(src, dst), nil
	default:
		return nil, fmt.Errorf("%s is unknown", codec)
	}
}

// Encoders are pooled: making one costs more than most batches do.
var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		// What Kafka writes: independent blocks of 64 KiB, no checksum. Both
		// options exist, so this cannot fail.
		_ = w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
		return w
	}}
	// zstdWriter serves all at once.
	zstdWriter = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil) })
)

type writer interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// writeAll appends what w makes of src to dst.
func writeAll(w writer, dst, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	_, err := w.Write(src)
	if e := w.Close(); err == nil {
		err = e
	}
	w.Reset(nil) // lets go of out
	return out.Bytes(), err
}
