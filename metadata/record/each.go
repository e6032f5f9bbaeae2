package record

import (
	"fmt"

	"github.com/klamm/klamm/protocol/batch"
)

// Entry is one record of a batch with its place in the log. Exactly one of
// Record and Control is set.
type Entry struct {
	Offset      int64
	TimestampMs int64
	Size        int // of the value, in bytes
	Record      Record
	Version     int16 // that Record was written with
	Control     Control
}

// Each decodes a batch of the metadata log or of a checkpoint, record by
// record. It returns the first error of each as it is; its own name the
// offset. The CRC is the caller's business.
func Each(b batch.Batch, each func(Entry) error) error {
	control := b.IsControl()
	base := b.BaseOffset()
	return b.Each(func(r batch.Record) error {
		e := Entry{Offset: base + int64(r.OffsetDelta), TimestampMs: r.Timestamp, Size: len(r.Value)}
		var err error
		if control {
			e.Control, err = ReadControl(r.Key, r.Value)
		} else {
			e.Record, e.Version, err = readVersioned(r.Value)
		}
		if err != nil {
			return fmt.Errorf("offset %d: %w", e.Offset, err)
		}
		return each(e)
	})
}
