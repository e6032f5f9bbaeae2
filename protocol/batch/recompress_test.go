package batch

import (
	"bytes"
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
			got, err := Recompress(build(from), to, 1<<20)
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if err := got.CheckCRC(); err != nil || got.Codec() != to || got.Size() != len(got) {
				t.Fatalf("%s to %s: codec %s, size %d of %d, %v", from, to, got.Codec(), got.Size(), len(got), err)
			}
			back, err := Recompress(got, CodecNone, 1<<20)
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if !bytes.Equal(back, plain) {
				t.Errorf("%s to %s changed the batch", from, to)
			}
		}
	}
}
