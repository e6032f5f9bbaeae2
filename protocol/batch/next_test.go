package batch

import (
	"errors"
	"testing"
)

func TestBuilderRoundTrip(t *testing.T) {
	b := NewBuilder(Options{BaseOffset: 7, LeaderEpoch: 3})
	b.Append(Record{Timestamp: 1000, Key: []byte("k"), Value: []byte("v")})
	b.Append(Record{Timestamp: 990})
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := built.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	got, rest, err := Next(append(append([]byte{}, built...), 1, 2))
	if err != nil || len(rest) != 2 {
		t.Fatalf("rest %d bytes, error %v", len(rest), err)
	}
	if got.LastOffset() != 8 || got.MaxTimestamp() != 1000 || got.HasProducerID() || got.LeaderEpoch() != 3 {
		t.Fatalf("header % x", got[:HeaderSize])
	}
	for n := range built {
		if _, _, err := Next(built[:n]); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
}
