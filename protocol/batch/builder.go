package batch

import (
	"encoding/binary"
	"fmt"
)

// Producer are the fields of an idempotent producer's batch.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32
}

// Options say what a Builder writes into the header.
type Options struct {
	BaseOffset  int64
	LeaderEpoch int32
	Codec       Codec
	// Producer is nil for a batch without producer id.
	Producer      *Producer
	Transactional bool
	Control       bool
	// AppendTime marks the timestamps as those of the append (LogAppendTime).
	AppendTime bool
}

// Builder makes one batch, record by record: of the metadata log, of control
// records, of compaction, of tests. It is not for concurrent use.
type Builder struct {
	opts    Options
	buf     []byte // header space and plain records
	count   int32
	base    int64 // base timestamp
	maxTime int64
	last    int32 // last offset delta
}

// NewBuilder returns an empty Builder.
func NewBuilder(opts Options) *Builder {
	b := &Builder{}
	b.Reset(opts)
	return b
}

// Reset makes the Builder empty and keeps its buffer: batches that it made
// before must not be in use any more.
func (b *Builder) Reset(opts Options) {
	if cap(b.buf) < HeaderSize {
		b.buf = make([]byte, HeaderSize, 512)
	}
	*b = Builder{opts: opts, buf: b.buf[:HeaderSize]}
}

// Append adds a record behind the last one; its OffsetDelta is set.
func (b *Builder) Append(r Record) {
	r.OffsetDelta = 0
	if b.count > 0 {
		r.OffsetDelta = b.last + 1
	}
	b.AppendAt(r)
}

// AppendAt adds a record with the OffsetDelta that it has. Deltas must rise:
// gaps are what compaction leaves.
func (b *Builder) AppendAt(r Record) {
	if b.count == 0 {
		b.base, b.maxTime = r.Timestamp, r.Timestamp
	} else if r.OffsetDelta <= b.last {
		panic(fmt.Sprintf("batch: offset delta %d after %d", r.OffsetDelta, b.last))
	}
	b.maxTime = max(b.maxTime, r.Timestamp)
	b.last = r.OffsetDelta
	b.count++
	b.buf = appendRecord(b.buf, &r, b.base)
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// Size is the size of the batch so far, before compression.
func (b *Builder) Size() int { return len(b.buf) }

// Build returns the batch. It aliases the Builder's buffer unless it is
// compressed, so it is valid until the next Reset.
func (b *Builder) Build() (Batch, error) {
	out := Batch(b.buf)
	if b.opts.Codec != CodecNone {
		packed, err := Compress(b.opts.Codec, b.opts.Codec.DefaultLevel(), make([]byte, HeaderSize, HeaderSize+len(b.buf)/2), b.buf[HeaderSize:])
		if err != nil {
			return nil, err
		}
		out = packed
	}
	binary.BigEndian.PutUint64(out, uint64(b.opts.BaseOffset))
	binary.BigEndian.PutUint32(out[offsetLength:], uint32(len(out)-FrameSize))
	binary.BigEndian.PutUint32(out[offsetLeaderEpoch:], uint32(b.opts.LeaderEpoch))
	out[offsetMagic] = 2
	binary.BigEndian.PutUint16(out[offsetAttributes:], uint16(b.attributes()))
	binary.BigEndian.PutUint32(out[offsetLastDelta:], uint32(b.last))
	binary.BigEndian.PutUint64(out[offsetBaseTimestamp:], uint64(b.base))
	binary.BigEndian.PutUint64(out[offsetMaxTimestamp:], uint64(b.maxTime))
	p := Producer{ID: noProducer, Epoch: -1, BaseSequence: -1}
	if b.opts.Producer != nil {
		p = *b.opts.Producer
	}
	binary.BigEndian.PutUint64(out[offsetProducerID:], uint64(p.ID))
	binary.BigEndian.PutUint16(out[offsetProducerEpoch:], uint16(p.Epoch))
	binary.BigEndian.PutUint32(out[offsetBaseSequence:], uint32(p.BaseSequence))
	binary.BigEndian.PutUint32(out[offsetRecordCount:], uint32(b.count))
	out.SetCRC()
	return out[:len(out):len(out)], nil
}

func (b *Builder) attributes() int16 {
	a := int16(b.opts.Codec)
	if b.opts.AppendTime {
		a |= appendTimeBit
	}
	if b.opts.Transactional {
		a |= transactionalBit
	}
	if b.opts.Control {
		a |= controlBit
	}
	return a
}
