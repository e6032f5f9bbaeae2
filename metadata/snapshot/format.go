package snapshot

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// A batch of a checkpoint is closed at either bound, as those of the log are.
const (
	maxBatchRecords = 10_000
	maxBatchBytes   = 1 << 20
)

// Header is what a checkpoint says beside the image's records.
type Header struct {
	LastTimestampMs int64 // of the last record of the log that is contained
	// KRaft is the state of a dynamic quorum (KIP-853).
	KRaft Quorum
}

// Quorum is what the control records of the log say of the quorum. It is never
// modified once made.
type Quorum struct {
	Version int16          // kraft.version; 0 = static quorum
	Voters  *record.Voters // nil in a static quorum
}

func (h Header) records() []record.Control {
	recs := []record.Control{&record.SnapshotHeader{LastContainedLogTimestampMs: h.LastTimestampMs}}
	if h.KRaft.Version > 0 {
		recs = append(recs, &record.KRaftVersion{Version: h.KRaft.Version})
		if h.KRaft.Voters != nil {
			recs = append(recs, h.KRaft.Voters)
		}
	}
	return recs
}

// Encode writes a whole checkpoint and returns its size.
func Encode(w io.Writer, epoch protocol.ControllerEpoch, h Header, recs iter.Seq[record.Record]) (int64, error) {
	e := encoder{w: w, epoch: epoch, timestampMs: h.LastTimestampMs, level: feature.Latest}
	e.control(h.records())
	for rec := range recs {
		if e.err != nil {
			break
		}
		e.append(rec)
	}
	e.flush()
	e.control([]record.Control{&record.SnapshotFooter{}})
	return e.size, e.err
}

// encoder writes batches until the first error.
type encoder struct {
	w           io.Writer
	epoch       protocol.ControllerEpoch
	timestampMs int64
	next        int64 // offset inside the checkpoint
	pending     []record.Record
	pendingSize int
	level       feature.Level // of metadata.version, the first record of an image
	frame       []byte
	size        int64
	err         error
}

func (e *encoder) append(rec record.Record) {
	if f, ok := rec.(*record.FeatureLevel); ok && f.Name == feature.MetadataVersion {
		e.level = feature.Level(f.Level)
	}
	e.pending = append(e.pending, rec)
	e.frame = record.AppendFrame(e.frame[:0], rec, e.level)
	e.pendingSize += len(e.frame)
	if len(e.pending) >= maxBatchRecords || e.pendingSize >= maxBatchBytes {
		e.flush()
	}
}

func (e *encoder) flush() {
	if len(e.pending) == 0 {
		return
	}
	e.write(record.EncodeBatch(e.pending, e.level, e.next, e.epoch, e.timestampMs))
	e.pending, e.pendingSize = e.pending[:0], 0
}

func (e *encoder) control(recs []record.Control) {
	e.write(record.EncodeControlBatch(recs, e.next, e.epoch, e.timestampMs))
}

func (e *encoder) write(b batch.Batch) {
	e.next = b.NextOffset()
	if e.err != nil {
		return
	}
	n, err := e.w.Write(b)
	e.size += int64(n)
	e.err = err
}

// Decode reads a whole checkpoint and hands over the image's records in order.
// Errors name the byte position. An error of each is returned as it is.
func Decode(src io.Reader, each func(record.Record) error) (Header, error) {
	var d decoder
	err := scan(src, func(b batch.Batch) error {
		return record.Each(b, func(e record.Entry) error {
			if e.Control == nil {
				return each(e.Record)
			}
			return d.control(e.Control)
		})
	})
	return d.header, err
}

// decoder follows the control records.
type decoder struct {
	header Header
	begun  bool
}

func (d *decoder) control(c record.Control) error {
	_, isHeader := c.(*record.SnapshotHeader)
	if isHeader == d.begun {
		return fmt.Errorf("%s where none is expected", record.ControlName(c))
	}
	d.begun = true
	switch c := c.(type) {
	case *record.SnapshotHeader:
		d.header.LastTimestampMs = c.LastContainedLogTimestampMs
	case *record.KRaftVersion:
		d.header.KRaft.Version = c.Version
	case *record.Voters:
		d.header.KRaft.Voters = c
	case *record.LeaderChange:
		return errors.New("LeaderChange where none is expected")
	}
	return nil
}

// scan walks a checkpoint's batches and checks that it is whole: CRCs, offsets
// without a gap, a control batch first and a footer last.
func scan(src io.Reader, each func(batch.Batch) error) error {
	s := record.NewScanner(src)
	var next int64
	footer := false
	for {
		b, err := s.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = checkOrder(b, next, footer)
		}
		if err == nil {
			footer, err = isFooter(b)
		}
		if err == nil {
			err = each(b)
		}
		if err != nil {
			return fmt.Errorf("position %d: %w", s.Position(), err)
		}
		next = b.NextOffset()
	}
	if !footer {
		return fmt.Errorf("position %d: the footer is missing", s.Position())
	}
	return nil
}

func checkOrder(b batch.Batch, next int64, footer bool) error {
	switch {
	case footer:
		return errors.New("a batch behind the footer")
	case b.BaseOffset() != next:
		return fmt.Errorf("a batch at offset %d, want %d", b.BaseOffset(), next)
	case next == 0 && !b.IsControl():
		return errors.New("the header is missing")
	}
	return nil
}

func isFooter(b batch.Batch) (bool, error) {
	if !b.IsControl() {
		return false, nil
	}
	footer := false
	err := record.Each(b, func(e record.Entry) error {
		_, footer = e.Control.(*record.SnapshotFooter)
		return nil
	})
	return footer, err
}
