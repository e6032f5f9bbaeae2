package batch

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/klamm/klamm/protocol"
)

// Whatever a client sends: no panic, an error of the protocol or a batch whose
// records can be read and that is found right when it is looked at again.
func FuzzValidate(f *testing.F) {
	for _, codec := range codecs {
		f.Add([]byte(many(f, codec, 3)))
		f.Add([]byte(build(f, Options{Codec: codec, Producer: &Producer{ID: 1}}, Record{Timestamp: 5})))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := Single(bytes.Clone(p)) // it is written to
		claimsAppendTime := err == nil && b.IsAppendTime()
		if err == nil {
			// Most inputs have a wrong CRC, behind which nothing would be tried.
			b.SetCRC()
			_, err = Validate(b, options())
		}
		if err != nil {
			if code := protocol.CodeOf(err); code == protocol.ErrUnknownServerError && !errors.Is(err, protocol.ErrUnknownServerError) {
				t.Fatalf("not an error of the protocol: %v", err)
			}
			return
		}
		if claimsAppendTime {
			return // the records' own times, which count from now on, were not looked at; nor does Kafka
		}
		result, err := Validate(b, options())
		if err != nil {
			t.Fatalf("second time: %v", err)
		}
		n, last := 0, int64(-1)
		err = b.Each(func(r Record) error {
			n++
			last = max(last, r.Timestamp)
			for h := range r.Headers.All() {
				_ = h.Key
			}
			return nil
		})
		if err != nil || n != int(b.RecordCount()) || last != b.MaxTimestamp() {
			t.Fatalf("%d of %d records, timestamp %d of %d, error %v", n, b.RecordCount(), last, b.MaxTimestamp(), err)
		}
		err = b.EachTime(func(_ int32, timestampMs int64) error {
			n--
			last = min(last, max(last, timestampMs))
			return nil
		})
		if err != nil || n != 0 || last != b.MaxTimestamp() {
			t.Fatalf("%d more times than records, timestamp %d of %d, error %v", -n, last, b.MaxTimestamp(), err)
		}
		o := options()
		o.Packed = true
		if _, err := Validate(b, o); errors.Is(err, errShifted) {
			return
		}
		packed, err := Recompress(b, CodecLZ4, 1, result.RecordBytes)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Validate(packed, options()); err != nil || again.RecordBytes != result.RecordBytes || again.MaxTimestampMs != result.MaxTimestampMs {
			t.Fatalf("packed anew: %+v, not %+v, %v", again, result, err)
		}
	})
}

func fuzzCodec(f *testing.F, codec Codec, seeds ...[]byte) {
	for _, plain := range [][]byte{nil, payload(50), payload(70_000), bytes.Repeat([]byte("a"), 200_000)} {
		packed, err := Compress(codec, codec.DefaultLevel(), nil, plain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
		f.Add(packed[:len(packed)/2])
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := Decompress(codec, nil, p, limit)
		if err == nil && len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
		if err != nil && !errors.Is(err, ErrCodec) && !errors.Is(err, ErrDecompressedSize) {
			t.Fatal(err)
		}
	})
}

func FuzzGzip(f *testing.F) { fuzzCodec(f, CodecGzip) }
func FuzzLZ4(f *testing.F)  { fuzzCodec(f, CodecLZ4) }
func FuzzZstd(f *testing.F) { fuzzCodec(f, CodecZstd) }

func FuzzSnappy(f *testing.F) {
	fuzzCodec(f, CodecSnappy, xerial(payload(100), payload(70_000)), append(xerial(payload(10)), xerial()...), snappy.Encode(nil, nil))
}

// Framing alone, as a reader of a log uses it.
func FuzzNext(f *testing.F) {
	one := build(f, Options{}, Record{Value: []byte("a")})
	f.Add(append(bytes.Clone(one), one...))
	f.Fuzz(func(t *testing.T, p []byte) {
		rest := p
		for {
			b, next, err := Next(rest)
			if err != nil {
				break
			}
			if len(b) != b.Size() || len(b)+len(next) != len(rest) {
				t.Fatalf("%d bytes of %d, size %d", len(b), len(rest), b.Size())
			}
			if n, err := PeekSize(rest); n != len(b) || err != nil {
				t.Fatalf("peeked %d, %v", n, err)
			}
			_, _, _, _ = b.CheckCRC(), b.LastOffset(), b.LastSequence(), b.Codec().String()
			rest = next
		}
	})
}
