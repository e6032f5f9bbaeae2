package record

import (
	"fmt"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// EncodeBatch returns one batch of the metadata log: the records at baseOffset
// and after it, in their versions at a level of metadata.version, all with the
// same time, stamped with the controller's epoch.
func EncodeBatch(recs []Record, level feature.Level, baseOffset int64, epoch protocol.ControllerEpoch, timestampMs int64) batch.Batch {
	b := batch.NewBuilder(batch.Options{BaseOffset: baseOffset, LeaderEpoch: int32(epoch)})
	var frame []byte
	for _, rec := range recs {
		frame = AppendFrame(frame[:0], rec, level)
		b.Append(batch.Record{Timestamp: timestampMs, Value: frame})
	}
	return build(b)
}

// EncodeControlBatch returns one batch of control records. Kafka writes all
// that belong to one event into one batch: LeaderChange, KRaftVersion and
// Voters of a first epoch; header, KRaftVersion and Voters of a checkpoint.
func EncodeControlBatch(recs []Control, baseOffset int64, epoch protocol.ControllerEpoch, timestampMs int64) batch.Batch {
	b := batch.NewBuilder(batch.Options{BaseOffset: baseOffset, LeaderEpoch: int32(epoch), Control: true})
	var key, value []byte
	for _, c := range recs {
		key, value = AppendControl(key[:0], value[:0], c)
		b.Append(batch.Record{Timestamp: timestampMs, Key: key, Value: value})
	}
	return build(b)
}

func build(b *batch.Builder) batch.Batch {
	out, err := b.Build()
	if err != nil {
		panic(fmt.Sprintf("record: a batch without compression failed to build: %v", err))
	}
	return out
}
