package coordinator

import (
	"fmt"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// append appends the records of an outcome and has them replayed. Records that
// may be split go in as many batches as they need; when one fails, those before
// it stay.
func (s *shard) append(o *Outcome) error {
	now := time.Now().UnixMilli()
	maxBytes := s.replica.Config().MaxMessageBytes
	options := batch.Options{Producer: o.Producer, Transactional: o.Producer != nil}
	builder := batch.NewBuilder(options)
	from := 0
	for i := range o.Records {
		r := &o.Records[i]
		r.TimestampMs, r.ProducerID, r.ProducerEpoch = now, -1, -1
		if o.Producer != nil {
			r.ProducerID, r.ProducerEpoch, r.Transactional = o.Producer.ID, o.Producer.Epoch, true
		}
		if o.Split && i > from && builder.Size()+recordRoom+len(r.Key)+len(r.Value) > maxBytes {
			if err := s.appendBatch(builder, o.Records[from:i], o.Applied, maxBytes); err != nil {
				return err
			}
			builder.Reset(options)
			from = i
		}
		builder.Append(batch.Record{Key: r.Key, Value: r.Value, Timestamp: now})
	}
	return s.appendBatch(builder, o.Records[from:], o.Applied, maxBytes)
}

// recordRoom is more than a record takes beside key and value.
const recordRoom = 64

func (s *shard) appendBatch(builder *batch.Builder, records []Record, applied bool, maxBytes int) error {
	b, err := builder.Build()
	if err != nil {
		return err
	}
	if len(b) > maxBytes {
		return fmt.Errorf("%d records take %d bytes, more than %d: %w", len(records), len(b), maxBytes, protocol.ErrRecordListTooLarge)
	}
	appended, err := s.replica.AppendAsLeader(b, true, storage.AppendOptions{Coordinator: true})
	if err != nil {
		return err
	}
	s.last, s.written = appended, true
	if applied {
		return nil
	}
	for i := range records {
		records[i].Offset = appended.FirstOffset + int64(i)
		s.machine.Replay(records[i])
	}
	return nil
}
