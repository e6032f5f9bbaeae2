package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// Layout of N.snapshot, big-endian (ProducerSnapshot.json):
//
//	 0 version        int16   1
//	 2 CRC-32C        uint32  of everything from byte 6
//	 6 entry count    int32
//	10 entries, 46 bytes each:
//	    0 producer id        int64
//	    8 epoch              int16
//	   10 last sequence      int32   −1 = no batch
//	   14 last offset        int64   −1 = no batch
//	   22 offset delta       int32
//	   26 timestamp          int64   ms
//	   34 coordinator epoch  int32
//	   38 txn first offset   int64   −1 = no open transaction
const (
	snapshotVersion    = 1
	snapshotCRCAt      = 2
	snapshotCountAt    = 6
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSnapshot encodes the state of all producers, in order of their ids so
// that equal states give equal bytes. Only the last batch of each is kept.
func appendSnapshot(dst []byte, s *producerState) []byte {
	start := len(dst)
	be := binary.BigEndian
	dst = be.AppendUint16(dst, snapshotVersion)
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(dst, uint32(len(s.byID)))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		p := s.byID[id]
		last := cachedBatch{lastSequence: -1, lastOffset: -1}
		if p.count > 0 {
			last = p.batches[p.count-1]
		}
		dst = be.AppendUint64(dst, uint64(id))
		dst = be.AppendUint16(dst, uint16(p.epoch))
		dst = be.AppendUint32(dst, uint32(last.lastSequence))
		dst = be.AppendUint64(dst, uint64(last.lastOffset))
		dst = be.AppendUint32(dst, uint32(last.offsetDelta))
		dst = be.AppendUint64(dst, uint64(p.lastTimestamp))
		dst = be.AppendUint32(dst, uint32(p.coordinatorEpoch))
		dst = be.AppendUint64(dst, uint64(p.txnFirstOffset))
	}
	crc := crc32.Checksum(dst[start+snapshotCountAt:], castagnoli)
	be.PutUint32(dst[start+snapshotCRCAt:], crc)
	return dst
}

// parseSnapshot decodes the producers of a snapshot. Any damage is an error:
// the caller takes an older snapshot and reads more of the log instead.
func parseSnapshot(data []byte) ([]producer, error) {
	if len(data) < snapshotHeaderSize {
		return nil, fmt.Errorf("%d bytes are too few for a header", len(data))
	}
	be := binary.BigEndian
	if version := be.Uint16(data); version != snapshotVersion {
		return nil, fmt.Errorf("version %d is unknown, want %d", version, snapshotVersion)
	}
	if stored, real := be.Uint32(data[snapshotCRCAt:]), crc32.Checksum(data[snapshotCountAt:], castagnoli); stored != real {
		return nil, fmt.Errorf("CRC is %08x, but the bytes give %08x", stored, real)
	}
	count := int64(int32(be.Uint32(data[snapshotCountAt:])))
	if count*snapshotEntrySize != int64(len(data)-snapshotHeaderSize) {
		return nil, fmt.Errorf("%d entries do not fill %d bytes", count, len(data)-snapshotHeaderSize)
	}
	producers := make([]producer, 0, count)
	for e := data[snapshotHeaderSize:]; len(e) > 0; e = e[snapshotEntrySize:] {
		p := newProducer(int64(be.Uint64(e)))
		p.epoch = int16(be.Uint16(e[8:]))
		p.lastTimestamp = int64(be.Uint64(e[26:]))
		p.coordinatorEpoch = int32(be.Uint32(e[34:]))
		p.txnFirstOffset = max(int64(be.Uint64(e[38:])), noTxn)
		last := cachedBatch{
			lastSequence: int32(be.Uint32(e[10:])), lastOffset: int64(be.Uint64(e[14:])),
			offsetDelta: int32(be.Uint32(e[22:])), timestamp: p.lastTimestamp,
		}
		if last.lastOffset >= 0 {
			p.batches[0], p.count, p.partial = last, 1, true
		}
		if p.id < 0 {
			return nil, errors.New("a producer has no id")
		}
		producers = append(producers, p)
	}
	return producers, nil
}
