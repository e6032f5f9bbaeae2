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

// DefaultLevel is the level of a codec that nobody chose one for.
func (c Codec) DefaultLevel() int {
	switch c {
	case CodecGzip:
		return gzip.DefaultCompression
	case CodecLZ4:
		return 9
	case CodecZstd:
		return 3
	default:
		return 0
	}
}

// Compress appends src in the codec's format to dst, as Kafka's clients frame
// it: gzip with its header, snappy as one raw block, LZ4 and zstd as frames. The
// level is one of Kafka's (KIP-390): -1 to 9 for gzip, 1 to 17 for LZ4, -131072 to
// 22 for zstd; other codecs have none. What it stands for is the libraries' own,
// and of several levels the nearest where they have fewer.
func Compress(codec Codec, level int, dst, src []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(dst, src...), nil
	case CodecGzip:
		level = min(max(level, gzip.DefaultCompression), gzip.BestCompression)
		pool := &gzipWriters[level+1]
		w, ok := pool.Get().(*gzip.Writer)
		if !ok {
			var err error
			if w, err = gzip.NewWriterLevel(nil, level); err != nil {
				return nil, err
			}
		}
		defer pool.Put(w)
		return writeAll(w, dst, src)
	case CodecSnappy:
		dst = slices.Grow(dst, snappy.MaxEncodedLen(len(src)))
		n := len(snappy.Encode(dst[len(dst):cap(dst)], src))
		return dst[:len(dst)+n], nil
	case CodecLZ4:
		i := lz4Effort(level)
		w, ok := lz4Writers[i].Get().(*lz4.Writer)
		if !ok {
			w = newLZ4(lz4Levels[i])
		}
		defer lz4Writers[i].Put(w)
		return writeAll(w, dst, src)
	case CodecZstd:
		w, err := zstdWriters[zstd.EncoderLevelFromZstd(level)]()
		if err != nil {
			return nil, err
		}
		return w.EncodeAll(src, dst), nil
	default:
		return nil, fmt.Errorf("%s is unknown", codec)
	}
}

// Encoders are kept per level: making one costs more than most batches do.
var (
	gzipWriters [gzip.BestCompression + 2]sync.Pool // by level + 1
	lz4Writers  [len(lz4Levels)]sync.Pool           // by lz4Effort
	// zstdWriters serve all at once.
	zstdWriters = func() (all [zstd.SpeedBestCompression + 1]func() (*zstd.Encoder, error)) {
		for i := range all {
			all[i] = sync.OnceValues(func() (*zstd.Encoder, error) {
				return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(i)))
			})
		}
		return all
	}()
)

var lz4Levels = [...]lz4.CompressionLevel{
	lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9,
}

// lz4Effort is the index of a level in lz4Levels. The default is the fast one,
// which Kafka takes for it too; all others look longer for matches.
func lz4Effort(level int) int {
	if level == CodecLZ4.DefaultLevel() {
		return 0
	}
	return min(max(level, 1), len(lz4Levels)-1)
}

func newLZ4(level lz4.CompressionLevel) *lz4.Writer {
	w := lz4.NewWriter(nil)
	// What Kafka writes: independent blocks of 64 KiB, no checksum. All options
	// exist, so this cannot fail.
	_ = w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(level))
	return w
}

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
