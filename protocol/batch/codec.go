package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/klamm/klamm/protocol"
)

// String returns the codec's name as in compression.type.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecGzip:
		return "gzip"
	case CodecSnappy:
		return "snappy"
	case CodecLZ4:
		return "lz4"
	case CodecZstd:
		return "zstd"
	default:
		return fmt.Sprintf("codec-%d", int8(c))
	}
}

// ErrCodec: the codec is unknown, or the bytes are not in its format. Kafka
// answers UNKNOWN_SERVER_ERROR, since to it this is an exception nobody
// expected; it is the producer's fault all the same and no bug of ours.
var ErrCodec = fmt.Errorf("records do not decompress: %w", protocol.ErrUnknownServerError)

// decoder decompresses one payload after another.
type decoder interface {
	io.Reader
	// reset starts with a payload, which is read in place.
	reset(src []byte) error
	// close lets go of the payload and of what is too large to keep.
	close()
}

// decoders are pooled per codec; their windows and tables are the larger part
// of what decompression allocates.
var decoders [CodecZstd + 1]sync.Pool

// decoding bounds the decoders in use. Connections by the thousand validate in
// their own goroutines; more decoders than processors only hold more memory,
// up to 8 MiB each. Who finds no slot free waits for one.
var decoding = make(chan struct{}, 2*runtime.GOMAXPROCS(0))

// openDecoder returns a decoder of the payload. closeDecoder must follow.
func openDecoder(codec Codec, src []byte) (decoder, error) {
	if codec <= CodecNone || codec > CodecZstd {
		return nil, fmt.Errorf("%w: %s is unknown", ErrCodec, codec)
	}
	decoding <- struct{}{}
	d, ok := decoders[codec].Get().(decoder)
	if !ok {
		switch codec {
		case CodecGzip:
			d = new(gzipDecoder)
		case CodecSnappy:
			d = new(snappyDecoder)
		case CodecLZ4:
			d = new(lz4Decoder)
		case CodecZstd:
			d = new(zstdDecoder)
		}
	}
	if err := d.reset(src); err != nil {
		closeDecoder(codec, d)
		return nil, fmt.Errorf("%w: %s: %w", ErrCodec, codec, err)
	}
	return d, nil
}

func closeDecoder(codec Codec, d decoder) {
	d.close()
	decoders[codec].Put(d)
	<-decoding
}

type gzipDecoder struct {
	gzip.Reader
	src bytes.Reader
}

func (d *gzipDecoder) reset(src []byte) error {
	d.src.Reset(src)
	return d.Reset(&d.src)
}

func (d *gzipDecoder) close() { d.src.Reset(nil) }

// Windows of zstd. What a frame says it needs is allocated when it is begun, so
// windows above keptWindow, which only the highest levels of compression use,
// are had by one batch at a time and not kept.
const (
	keptWindow = 8 << 20
	maxWindow  = 128 << 20 // the largest that Kafka's reader takes
)

// wide is taken by the one zstdDecoder that may use up to maxWindow.
var wide = make(chan struct{}, 1)

type zstdDecoder struct {
	narrow, wide *zstd.Decoder
	payload      []byte
	src          bytes.Reader
	produced     int64
}

func newZstd(window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
}

func (d *zstdDecoder) reset(src []byte) (err error) {
	if d.narrow == nil {
		if d.narrow, err = newZstd(keptWindow); err != nil {
			return err
		}
	}
	d.payload, d.produced = src, 0
	d.src.Reset(src)
	return d.narrow.Reset(&d.src)
}

func (d *zstdDecoder) Read(p []byte) (int, error) {
	if d.wide != nil {
		return d.wide.Read(p)
	}
	n, err := d.narrow.Read(p)
	d.produced += int64(n)
	if !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return n, err
	}
	if err := d.widen(); err != nil {
		return n, err
	}
	return n, nil
}

// widen starts again with a wide window, behind what was read already.
func (d *zstdDecoder) widen() error {
	// Others shall not wait for this slot while we wait for that one.
	<-decoding
	wide <- struct{}{}
	decoding <- struct{}{}
	var err error
	if d.wide, err = newZstd(maxWindow); err != nil {
		<-wide
		return err
	}
	d.src.Reset(d.payload)
	if err := d.wide.Reset(&d.src); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, d.wide, d.produced)
	return err
}

func (d *zstdDecoder) close() {
	if d.wide != nil {
		d.wide.Close()
		d.wide = nil
		<-wide
	}
	d.payload = nil
	d.src.Reset(nil)
	if d.narrow != nil {
		// Resetting to no reader lets go of the last one.
		_ = d.narrow.Reset(nil)
	}
}

// Decompress appends the decompressed src to dst. More than limit bytes are
// ErrDecompressedSize.
func Decompress(codec Codec, dst, src []byte, limit int64) ([]byte, error) {
	if codec == CodecNone {
		return append(dst, src...), nil
	}
	s, err := openStream(codec, src, limit)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for s.more() {
		dst = append(dst, s.buf...)
		s.buf = nil
	}
	return dst, s.err
}
