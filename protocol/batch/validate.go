package batch

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// ValidateOptions say what a topic asks of the batches that clients produce.
type ValidateOptions struct {
	// Partition is named in messages.
	Partition protocol.TopicPartition
	// MaxMessageBytes is the largest batch (max.message.bytes).
	MaxMessageBytes int
	// MaxDecompressedBytes is how large a record in a compressed batch may be
	// (max.decompressed.message.bytes); 0 leaves it unbounded. The name says
	// message, and Kafka means one record, not the batch.
	MaxDecompressedBytes int
	// AppendTime replaces the producer's timestamps by NowMs (message.timestamp.type).
	AppendTime bool
	// TimestampBeforeMs and TimestampAfterMs are how far from NowMs a
	// producer's timestamp may lie (message.timestamp.before.max.ms and
	// message.timestamp.after.max.ms). Without AppendTime both count.
	TimestampBeforeMs, TimestampAfterMs int64
	NowMs                               int64
	// Packed: the records will be compressed if they are not yet, and have to be
	// fit for it.
	Packed bool
	// Compacted topics want a key in every record.
	Compacted bool
}

// Result is what Validate found out.
type Result struct {
	// Batch is what to append. It is the batch given, its header rewritten
	// in place where timestamps demanded it.
	Batch Batch
	// MaxTimestampMs is the largest timestamp of a record, or the append time.
	MaxTimestampMs int64
	// AppendTimeMs is the append time where the topic wants it, else −1: the
	// answer's LogAppendTime.
	AppendTimeMs int64
	// RecordBytes is what the records have decompressed.
	RecordBytes int64
}

// RecordError is one record that is refused; Index counts from 0.
type RecordError struct {
	Index   int32
	Message string
}

// RecordErrors is the error of a batch some records of which are refused. All
// are counted, the first maxRecordErrors are described.
type RecordErrors struct {
	protocol.Described
	Records []RecordError
}

// Unwrap returns the code with its message.
func (e *RecordErrors) Unwrap() error { return &e.Described }

// errShifted: Kafka would write a compressed batch anew for it, and fails at that.
// A plain one that its topic wants compressed it puts right; nobody sends such.
var errShifted = fmt.Errorf("offset deltas of compressed records do not count up: %w", protocol.ErrUnknownServerError)

// maxRecordErrors bounds what a bad batch costs us and its answer. Kafka has no
// bound here.
const maxRecordErrors = 100

// Single returns the one batch that a produce request may have for a
// partition. Bytes behind it that are too few for another batch are ignored.
// Where it returns an error, the answer's log start offset is −1.
func Single(records []byte) (Batch, error) {
	b, rest, err := Next(records)
	switch {
	case isIncomplete(err):
		return nil, fmt.Errorf("no batch: %w", protocol.ErrInvalidRecord)
	case err != nil:
		return nil, describe(records, err)
	}
	_, _, err = Next(rest)
	switch {
	case isIncomplete(err):
		return b, nil
	case err == nil || err == ErrOldMagic:
		return nil, fmt.Errorf("more than one batch: %w", protocol.ErrInvalidRecord)
	default:
		return nil, describe(rest, err)
	}
}

func isIncomplete(err error) bool { return err == ErrIncomplete }

// describe adds the message that Kafka has for a framing error.
func describe(buf []byte, err error) error {
	length := int32(binary.BigEndian.Uint32(buf[offsetLength:]))
	switch {
	case err == ErrMagic:
		return protocol.Errorf(protocol.ErrCorruptMessage, "Invalid magic found in record: %d", int8(buf[offsetMagic]))
	case err == ErrLength && length < minOldLength:
		return protocol.Errorf(protocol.ErrCorruptMessage,
			"Record size %d is less than the minimum record overhead (%d)", length, minOldLength)
	default:
		return err
	}
}

// Validate checks a batch that a client produced, as Kafka does (LogValidator),
// and sets its maximum timestamp and timestamp type. Its records are walked,
// decompressed for it but never held as a whole. Errors are protocol errors;
// refused records are a *RecordErrors. In an answer to ErrMessageTooLarge and
// ErrCorruptMessage the log start offset is −1, with any other error the log's.
//
// Kafka leaves offsets of plain records unchecked, so we do; those of compressed
// ones must count up from 0. Unlike Kafka, a compressed record whose length is
// wrong is refused: consumers could not read it.
func Validate(b Batch, o *ValidateOptions) (Result, error) {
	if b.BaseOffset() != 0 {
		return Result{}, fmt.Errorf("base offset is %d: %w", b.BaseOffset(), protocol.ErrInvalidRecord)
	}
	if len(b) > o.MaxMessageBytes {
		return Result{}, fmt.Errorf("batch has %d bytes, more than %d: %w", len(b), o.MaxMessageBytes, protocol.ErrMessageTooLarge)
	}
	if err := b.CheckCRC(); err != nil {
		return Result{}, err
	}
	if err := checkHeader(b); err != nil {
		return Result{}, err
	}
	v := validation{b: b, o: o, maxTimestamp: -1}
	if err := v.walk(); err != nil {
		return Result{}, err
	}
	r := Result{Batch: b, MaxTimestampMs: v.maxTimestamp, AppendTimeMs: -1, RecordBytes: v.recordBytes}
	if o.AppendTime {
		r.MaxTimestampMs, r.AppendTimeMs = o.NowMs, o.NowMs
	}
	if b.IsAppendTime() != o.AppendTime || b.MaxTimestamp() != r.MaxTimestampMs {
		b.setTimestamps(o.AppendTime, r.MaxTimestampMs)
	}
	return r, nil
}

// checkHeader checks what the header says about records and producer.
func checkHeader(b Batch) error {
	count, lastDelta := b.RecordCount(), b.LastOffsetDelta()
	switch {
	case count <= 0 || lastDelta < 0 || int64(count) != int64(lastDelta)+1:
		return fmt.Errorf("%d records, last offset delta %d: %w", count, lastDelta, protocol.ErrInvalidRecord)
	case b.IsControl():
		return fmt.Errorf("a client sent a control batch: %w", protocol.ErrInvalidRecord)
	case b.HasProducerID() && b.BaseSequence() < 0:
		return fmt.Errorf("sequence is %d: %w", b.BaseSequence(), protocol.ErrInvalidRecord)
	default:
		return nil
	}
}

// setTimestamps rewrites timestamp type and maximum timestamp. Attribute bits
// without a meaning are cleared by it, as in Kafka.
func (b Batch) setTimestamps(appendTime bool, maxTimestamp int64) {
	a := b.Attributes() & (codecMask | transactionalBit | controlBit | deleteHorizonBit)
	if appendTime {
		a |= appendTimeBit
	}
	binary.BigEndian.PutUint16(b[offsetAttributes:], uint16(a))
	binary.BigEndian.PutUint64(b[offsetMaxTimestamp:], uint64(maxTimestamp))
	b.SetCRC()
}

// validation is one walk over the records of a batch.
type validation struct {
	b            Batch
	o            *ValidateOptions
	maxTimestamp int64
	recordBytes  int64
	refused      []RecordError
	refusedCount int
	badTimestamp bool
}

func (v *validation) walk() error {
	if v.b.Codec() == CodecNone {
		s := plainStream(v.b.Records())
		v.recordBytes = int64(len(v.b.Records()))
		return v.walkStream(&s)
	}
	s, err := openStream(v.b.Codec(), v.b.Records(), maxDecompressed)
	if err != nil {
		return err
	}
	defer s.close()
	s.maxRecord = v.o.MaxDecompressedBytes
	err = v.walkStream(s)
	v.recordBytes = maxDecompressed - s.left
	return err
}

func (v *validation) walkStream(s *stream) error {
	compressed, appendTime := v.b.Codec() != CodecNone, v.b.IsAppendTime()
	base, count := v.b.BaseTimestamp(), v.b.RecordCount()
	shifted := false
	for i := range count {
		h, err := s.record()
		if err != nil {
			return err
		}
		timestamp := base + h.timestampDelta
		if appendTime {
			timestamp = v.b.MaxTimestamp()
		}
		if v.o.Compacted && !h.hasKey {
			v.refuse(i, "Compacted topic cannot accept message without key in topic partition %s", v.o.Partition)
		} else {
			v.checkTimestamp(i, timestamp, h.offsetDelta)
		}
		v.maxTimestamp = max(v.maxTimestamp, timestamp)
		shifted = shifted || h.offsetDelta != int(i)
	}
	switch {
	case !s.atEnd():
		return s.bad()
	case v.refusedCount > 0:
		return v.recordErrors()
	case (compressed || v.o.Packed) && shifted:
		return errShifted
	default:
		return nil
	}
}

// checkTimestamp refuses a producer's timestamp outside of the window. The
// differences wrap like Kafka's.
func (v *validation) checkTimestamp(i int32, timestamp int64, offsetDelta int) {
	if !v.o.AppendTime && timestamp != -1 {
		age := v.o.NowMs - timestamp
		if age > v.o.TimestampBeforeMs || -age > v.o.TimestampAfterMs {
			v.badTimestamp = true
			v.refuse(i, "Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				timestamp, v.b.BaseOffset()+int64(offsetDelta), v.o.NowMs-v.o.TimestampBeforeMs, v.o.NowMs+v.o.TimestampAfterMs)
		}
		return
	}
	if v.b.IsAppendTime() {
		v.badTimestamp = true
		v.refuse(i, "Invalid timestamp type in message %d. Producer should not set timestamp type to LogAppendTime.", i)
	}
}

func (v *validation) refuse(i int32, format string, args ...any) {
	if v.refusedCount++; v.refusedCount <= maxRecordErrors {
		v.refused = append(v.refused, RecordError{Index: i, Message: fmt.Sprintf(format, args...)})
	}
}

// recordErrors returns the error of the refused records. One wrong timestamp
// among them decides the code.
func (v *validation) recordErrors() error {
	e := &RecordErrors{Records: v.refused}
	if v.badTimestamp {
		e.Code, e.Message = protocol.ErrInvalidTimestamp, "One or more records have been rejected due to invalid timestamp"
		return e
	}
	first := make([]string, min(3, len(v.refused)))
	for i := range first {
		first[i] = fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", v.refused[i].Index, v.refused[i].Message)
	}
	e.Code = protocol.ErrInvalidRecord
	e.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, "+
		"and only showing the first three errors at most: [%s]", v.refusedCount, strings.Join(first, ", "))
	return e
}
