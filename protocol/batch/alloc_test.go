package batch

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// makeHeaders encodes headers.
func makeHeaders(headers ...Header) Headers {
	h := Headers{count: int32(len(headers))}
	for _, header := range headers {
		h.bytes = binary.AppendVarint(h.bytes, int64(len(header.Key)))
		h.bytes = append(h.bytes, header.Key...)
		h.bytes = appendBytes(h.bytes, header.Value)
	}
	return h
}

// many is a batch of n records, as a producer sends them.
func many(t testing.TB, codec Codec, n int) Batch {
	b := NewBuilder(Options{Codec: codec})
	headers := makeHeaders(Header{Key: "trace", Value: []byte("0123456789abcdef")})
	for i := range n {
		b.Append(Record{Timestamp: now + int64(i), Key: fmt.Appendf(nil, "key-%d", i), Value: payload(100), Headers: headers})
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return append(Batch(nil), built...)
}

// Validating allocates nothing per record, and for plain batches nothing at all.
func TestValidateAllocations(t *testing.T) {
	if underRace {
		t.Skip("pools are not what they are")
	}
	o := options()
	o.Compacted = true
	for _, codec := range codecs {
		var counts []float64
		for _, n := range []int{10, 2000} {
			b := many(t, codec, n)
			counts = append(counts, testing.AllocsPerRun(50, func() {
				if _, err := Validate(b, o); err != nil {
					t.Fatal(err)
				}
			}))
		}
		// A collection in between empties the pools: hence the slack.
		if counts[1] > counts[0]+3 || codec == CodecNone && counts[1] > 0 {
			t.Errorf("%s: %v allocations for 10 and 2000 records", codec, counts)
		}
		t.Logf("%s: %v", codec, counts)
	}
}

func TestEachAllocations(t *testing.T) {
	if underRace {
		t.Skip("pools are not what they are")
	}
	for _, codec := range codecs {
		b := many(t, codec, 1000)
		n := testing.AllocsPerRun(20, func() {
			if err := b.Each(func(Record) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
		if n > 10 {
			t.Errorf("%s: %v allocations", codec, n)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, codec := range codecs {
		b.Run(codec.String(), func(b *testing.B) {
			batch, o := many(b, codec, 150), options()
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, o); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/150, "ns/record")
		})
	}
}
