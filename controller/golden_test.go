package controller

import (
	"bytes"
	"os"
	"testing"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// testdata/first_start.bin is the beginning of the metadata log of a fresh
// Kafka 4.4.0: LeaderChange and the bootstrap records. Ours are the same bytes,
// but for the time and what it does to the CRC.
func TestFirstBatchesAreKafkas(t *testing.T) {
	kafkas, err := os.ReadFile("testdata/first_start.bin")
	if err != nil {
		t.Fatal(err)
	}
	first, rest, err := batch.Next(kafkas)
	if err != nil {
		t.Fatal(err)
	}
	second, rest, err := batch.Next(rest)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%d bytes left, %v", len(rest), err)
	}
	ours := batch.Batch(FirstEntry(1, []protocol.NodeID{1}, nil)(1))
	const times, timesEnd = 27, 43 // base and max timestamp
	copy(ours[times:timesEnd], first[times:timesEnd])
	ours.SetCRC()
	if !bytes.Equal(ours, first) {
		t.Errorf("LeaderChange:\n% x\nKafka's:\n% x", ours, first)
	}

	ours = record.EncodeBatch(decide.Bootstrap(nil, decide.Env{}), feature.Latest, second.BaseOffset(), 1, second.MaxTimestamp())
	if !bytes.Equal(ours, second) {
		t.Errorf("bootstrap records:\n% x\nKafka's:\n% x", ours, second)
	}
}
