package batch

import (
	"encoding/binary"
	"hash/crc32"
)

// Layout of a RecordBatch v2, big-endian (KIP-98, DefaultRecordBatch.java):
//
//	 0 base offset       int64   outside the CRC, set by the leader
//	 8 length            int32   bytes after this field
//	12 leader epoch      int32   outside the CRC, set by the leader
//	16 magic             int8    2
//	17 CRC-32C           uint32  of everything from byte 21
//	21 attributes        int16   bits below
//	23 last offset delta int32
//	27 base timestamp    int64   ms
//	35 max timestamp     int64   ms
//	43 producer id       int64   −1 = none
//	51 producer epoch    int16
//	53 base sequence     int32
//	57 record count      int32
//	61 records
const (
	offsetLength        = 8
	offsetLeaderEpoch   = 12
	offsetMagic         = 16
	offsetCRC           = 17
	offsetAttributes    = 21
	offsetLastDelta     = 23
	offsetBaseTimestamp = 27
	offsetMaxTimestamp  = 35
	offsetProducerID    = 43
	offsetProducerEpoch = 51
	offsetBaseSequence  = 53
	offsetRecordCount   = 57
	// FrameSize is the size of base offset and length, which Length does not count.
	FrameSize = 12
	// HeaderSize is the size of everything before the records.
	HeaderSize = 61
)

// Attribute bits.
const (
	codecMask        = 0x07
	appendTimeBit    = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
	noProducer       = -1
)

// Codec is the compression of a batch's records.
type Codec int8

// The codecs, by their attribute bits.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole RecordBatch v2, seen in place. It aliases the buffer that
// it was cut from. The accessors read a header that Next has found complete.
type Batch []byte

func (b Batch) i64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
func (b Batch) i32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) i16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }

// BaseOffset is the offset of the first record (of the batch as it was
// produced: compaction may have removed that record).
func (b Batch) BaseOffset() int64 { return b.i64(0) }

// Size is the number of bytes that the batch takes, its frame included.
func (b Batch) Size() int { return int(b.i32(offsetLength)) + FrameSize }

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() int32 { return b.i32(offsetLeaderEpoch) }

// Magic is the format version; only 2 is readable here.
func (b Batch) Magic() int8 { return int8(b[offsetMagic]) }

// CRC is the stored CRC-32C.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[offsetCRC:]) }

// LastOffsetDelta is the last record's offset relative to BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return b.i32(offsetLastDelta) }

// LastOffset is the offset of the last record.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after the last record's.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp is the timestamp in ms that the records' deltas count from, or
// the delete horizon where that bit is set.
func (b Batch) BaseTimestamp() int64 { return b.i64(offsetBaseTimestamp) }

// MaxTimestamp is the largest timestamp of a record, or the append time, in ms.
func (b Batch) MaxTimestamp() int64 { return b.i64(offsetMaxTimestamp) }

// ProducerID is −1 where the producer is not idempotent.
func (b Batch) ProducerID() int64 { return b.i64(offsetProducerID) }

// HasProducerID tells whether the batch comes from an idempotent producer.
func (b Batch) HasProducerID() bool { return b.ProducerID() > noProducer }

// ProducerEpoch fences an earlier life of the producer id; −1 without one.
func (b Batch) ProducerEpoch() int16 { return b.i16(offsetProducerEpoch) }

// BaseSequence is the first record's sequence number; −1 without a producer id.
func (b Batch) BaseSequence() int32 { return b.i32(offsetBaseSequence) }

// LastSequence is the last record's sequence number, which wraps from 2^31−1 to 0.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == -1 {
		return -1
	}
	return int32((int64(b.BaseSequence()) + int64(b.LastOffsetDelta())) & 0x7fffffff)
}

// RecordCount is the number of records in the batch.
func (b Batch) RecordCount() int32 { return b.i32(offsetRecordCount) }

// Attributes are the attribute bits.
func (b Batch) Attributes() int16 { return b.i16(offsetAttributes) }

// Codec is the compression of the records; 5 to 7 are unknown.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// IsAppendTime tells whether timestamps are those of the append.
func (b Batch) IsAppendTime() bool { return b.Attributes()&appendTimeBit != 0 }

// IsTransactional tells whether the records belong to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&transactionalBit != 0 }

// IsControl tells whether the batch holds control records, which no consumer sees.
func (b Batch) IsControl() bool { return b.Attributes()&controlBit != 0 }

// Records are the bytes behind the header, compressed as Codec says.
func (b Batch) Records() []byte { return b[HeaderSize:] }

// SetBaseOffset patches the base offset, which the CRC does not cover.
func (b Batch) SetBaseOffset(offset int64) { binary.BigEndian.PutUint64(b, uint64(offset)) }

// SetLeaderEpoch patches the leader epoch, which the CRC does not cover.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[offsetLeaderEpoch:], uint32(epoch))
}

// ComputeCRC returns the CRC-32C of everything that it covers.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[offsetAttributes:], castagnoli) }

// SetCRC computes the CRC and stores it. Whoever changes a covered byte calls it.
func (b Batch) SetCRC() { binary.BigEndian.PutUint32(b[offsetCRC:], b.ComputeCRC()) }
