package batch

import (
	"bytes"
	"fmt"
	"testing"
)

// TestRecompress turns every codec into every other: the records and all else in
// the header stay as they are.
func TestRecompress(t *testing.T) {
	build := func(codec Codec) Batch {
		b := NewBuilder(Options{Codec: codec, Producer: &Producer{ID: 7, Epoch: 1, BaseSequence: 30}, Transactional: true})
		for i := range int64(50) {
			b.Append(Record{Key: []byte("key"), Value: []byte("the same value again"), Timestamp: 1000 + i})
		}
		built, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(built)
	}
	plain := build(CodecNone)
	for from := CodecNone; from <= CodecZstd; from++ {
		for to := CodecNone; to <= CodecZstd; to++ {
			got, err := Recompress(build(from), to, to.DefaultLevel(), int64(len(plain)-HeaderSize))
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if err := got.CheckCRC(); err != nil || got.Codec() != to || got.Size() != len(got) {
				t.Fatalf("%s to %s: codec %s, size %d of %d, %v", from, to, got.Codec(), got.Size(), len(got), err)
			}
			back, err := Recompress(got, CodecNone, 0, int64(len(plain)-HeaderSize))
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if !bytes.Equal(back, plain) {
				t.Errorf("%s to %s changed the batch", from, to)
			}
		}
	}
}

// TestLevels: a higher level makes no larger batch, and the ends of each range
// differ. Levels beyond the range are its ends.
func TestLevels(t *testing.T) {
	var text []byte
	for i := range 20_000 {
		text = fmt.Appendf(text, "record %d of %d and %x;", i, i*i%977, i*7919)
	}
	size := func(codec Codec, level int) int {
		t.Helper()
		packed, err := Compress(codec, level, nil, text)
		if err != nil {
			t.Fatalf("%s at %d: %v", codec, level, err)
		}
		back, err := Decompress(codec, nil, packed, 1<<30)
		if err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%s at %d: does not come back: %v", codec, level, err)
		}
		return len(packed)
	}
	for _, c := range []struct {
		codec  Codec
		levels []int // each packs better than the one before it
		same   [][2]int
	}{
		{CodecGzip, []int{1, 6, 9}, [][2]int{{-1, CodecGzip.DefaultLevel()}, {12, 9}}},
		{CodecLZ4, []int{9, 1, 17}, [][2]int{{9, CodecLZ4.DefaultLevel()}, {18, 17}}},
		{CodecZstd, []int{3, 10}, [][2]int{{-131072, 1}, {22, 10}, {CodecZstd.DefaultLevel(), 3}}},
	} {
		for i := 1; i < len(c.levels); i++ {
			if low, high := size(c.codec, c.levels[i-1]), size(c.codec, c.levels[i]); high >= low {
				t.Errorf("%s: %d bytes at %d, %d at %d", c.codec, low, c.levels[i-1], high, c.levels[i])
			}
		}
		for _, pair := range c.same {
			if a, b := size(c.codec, pair[0]), size(c.codec, pair[1]); a != b {
				t.Errorf("%s: %d bytes at %d, %d at %d", c.codec, a, pair[0], b, pair[1])
			}
		}
	}
}
