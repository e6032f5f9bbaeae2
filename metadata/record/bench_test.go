package record

import (
	"testing"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

// What a checkpoint of a large cluster is made of.
func benchmarkPartition() *Partition {
	replicas := []protocol.NodeID{1, 2, 3}
	return &Partition{
		TopicID: protocol.UUID{1}, PartitionID: 7, Replicas: replicas, ISR: replicas, Leader: 1,
		Directories: make([]protocol.UUID, len(replicas)),
	}
}

func BenchmarkAppendFrame(b *testing.B) {
	rec, buf := benchmarkPartition(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendFrame(buf[:0], rec, feature.Latest)
	}
}

func BenchmarkReadFrame(b *testing.B) {
	frame := AppendFrame(nil, benchmarkPartition(), feature.Latest)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadFrame(frame); err != nil {
			b.Fatal(err)
		}
	}
}
