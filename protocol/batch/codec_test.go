package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// xerial frames blocks as snappy-java does.
func xerial(blocks ...[]byte) []byte {
	out := append([]byte(nil), xerialMagic...)
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 1)
	for _, block := range blocks {
		packed := snappy.Encode(nil, block)
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
	}
	return out
}

// payload is text that compresses somewhat.
func payload(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out []byte
	for len(out) < n {
		out = fmt.Appendf(out, "record %d;", r.IntN(1000))
	}
	return out[:n]
}

func lz4Frame(t testing.TB, src []byte, opts ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := errors.Join(w.Apply(opts...), func() error { _, err := w.Write(src); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstdStream(t testing.TB, src []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, opts...)
	if err != nil {
		t.Fatal(err)
	}
	// In pieces, so that the writer cannot know the size.
	for len(src) > 0 {
		n := min(len(src), 100_000)
		if _, err := w.Write(src[:n]); err != nil {
			t.Fatal(err)
		}
		src = src[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What clients write, in all the ways that they write it.
func TestDecompress(t *testing.T) {
	small, large := payload(100), payload(700_000)
	for _, c := range []struct {
		name         string
		codec        Codec
		packed, want []byte
	}{
		{"snappy raw", CodecSnappy, snappy.Encode(nil, large), large},
		{"snappy xerial", CodecSnappy, xerial(large[:32<<10], large[32<<10:64<<10]), large[:64<<10]},
		{"snappy xerial joined", CodecSnappy, append(xerial(small), xerial(small, nil)...), append(append([]byte(nil), small...), small...)},
		{"snappy xerial empty", CodecSnappy, xerial(), nil},
		{"lz4 64K", CodecLZ4, lz4Frame(t, large, lz4.BlockSizeOption(lz4.Block64Kb)), large},
		{"lz4 4M", CodecLZ4, lz4Frame(t, large, lz4.BlockSizeOption(lz4.Block4Mb)), large},
		{"lz4 checksums", CodecLZ4, lz4Frame(t, large, lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)), large},
		{"lz4 size", CodecLZ4, lz4Frame(t, large, lz4.SizeOption(uint64(len(large)))), large},
		{"lz4 stored", CodecLZ4, lz4Frame(t, []byte("x")), []byte("x")},
		{"zstd", CodecZstd, zstdStream(t, large), large},
		{"zstd two frames", CodecZstd, append(zstdStream(t, small), zstdStream(t, small)...), append(append([]byte(nil), small...), small...)},
		{"zstd wide window", CodecZstd, zstdStream(t, large, zstd.WithWindowSize(64<<20)), large},
		{
			"zstd narrow, then wide", CodecZstd,
			append(zstdStream(t, small), zstdStream(t, large, zstd.WithWindowSize(64<<20))...),
			append(append([]byte(nil), small...), large...),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second time with a used decoder
				got, err := Decompress(c.codec, []byte("head"), c.packed, int64(len(c.want)))
				if err != nil || !bytes.Equal(got, append([]byte("head"), c.want...)) {
					t.Fatalf("%d bytes, want %d, error %v", len(got), len(c.want)+4, err)
				}
				if len(c.want) > 0 {
					if _, err := Decompress(c.codec, nil, c.packed, int64(len(c.want))-1); !errors.Is(err, ErrDecompressedSize) {
						t.Fatalf("beyond the limit: %v", err)
					}
				}
			}
		})
	}
}

// What Kafka's consumers could not read is refused, and so is a payload that ends early.
func TestDecompressRefuses(t *testing.T) {
	text := payload(300_000)
	frame := lz4Frame(t, text, lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
	s2Only := append([]byte{12}, "\x0cabcd\x01\x04\x01\x00"...) // abcd, abcd copied, the copy repeated
	if _, err := s2.Decode(nil, s2Only); err != nil {
		t.Fatal(err)
	}
	block := func(claim uint64, elements ...byte) []byte {
		return append(binary.AppendUvarint(nil, claim), elements...)
	}
	changed := func(p []byte, at int, v byte) []byte { c := bytes.Clone(p); c[at] ^= v; return c }
	for _, c := range []struct {
		name   string
		codec  Codec
		packed []byte
	}{
		{"gzip nothing", CodecGzip, nil},
		{"gzip text", CodecGzip, []byte("no gzip at all")},
		{"snappy nothing", CodecSnappy, []byte{0x80}},
		{"snappy claims 4 GiB", CodecSnappy, block(1<<32-1, 0, 'a')},
		{"snappy claims too much", CodecSnappy, block(100, 0, 'a')},
		{"snappy is S2", CodecSnappy, s2Only},
		{"snappy copies from nowhere", CodecSnappy, block(5, 0, 'a', 0x01, 9)},
		{"xerial cut header", CodecSnappy, xerialMagic},
		{"xerial cut length", CodecSnappy, append(xerial(text), 0, 0)},
		{"xerial long length", CodecSnappy, append(xerial(text), 0, 0, 1, 0)},
		{"xerial negative length", CodecSnappy, append(xerial(text), 0xff, 0, 1, 0)},
		{"lz4 nothing", CodecLZ4, nil},
		{"lz4 legacy", CodecLZ4, lz4Frame(t, text, lz4.LegacyOption(true))},
		{"lz4 two frames", CodecLZ4, append(bytes.Clone(frame), frame...)},
		{"lz4 tail", CodecLZ4, append(bytes.Clone(frame), 0)},
		{"lz4 header checksum", CodecLZ4, changed(frame, 6, 1)},
		{"lz4 block larger than its maximum", CodecLZ4, changed(frame, 9, 0x7f)},
		{"lz4 block checksum", CodecLZ4, changed(lz4Frame(t, text, lz4.BlockChecksumOption(true)), 2000, 1)},
		{"zstd text", CodecZstd, []byte("no zstd at all")},
		{"codec 5", 5, text},
		{"codec -1", -1, text},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Decompress(c.codec, nil, c.packed, 1<<20); !errors.Is(err, ErrCodec) {
				t.Fatalf("error %v", err)
			}
		})
	}
	for _, codec := range codecs[1:] {
		packed, err := Compress(codec, codec.DefaultLevel(), nil, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 5, len(packed) / 2, len(packed) - 1} {
			if _, err := Decompress(codec, nil, packed[:n], 1<<20); !errors.Is(err, ErrCodec) {
				t.Errorf("%s cut to %d of %d: %v", codec, n, len(packed), err)
			}
		}
	}
}

// A snappy block that claims a GiB allocates nothing.
func TestSnappyClaim(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decompress(CodecSnappy, nil, append(binary.AppendUvarint(nil, 1<<30), 0, 'a'), 1<<31)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrCodec) || n > 1<<20 {
		t.Fatalf("%d bytes allocated, error %v", n, err)
	}
}

func TestXXHash32(t *testing.T) {
	for text, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff} {
		if got := xxHash32([]byte(text)); got != want {
			t.Errorf("%q: %x, want %x", text, got, want)
		}
	}
	// The library's writer is the second opinion on long input.
	if _, err := Decompress(CodecLZ4, nil, lz4Frame(t, payload(100_003), lz4.BlockChecksumOption(true)), 1<<20); err != nil {
		t.Error(err)
	}
}
