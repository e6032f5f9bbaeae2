package storage

import (
	"encoding/binary"
	"fmt"
)

// abortedTxn is one entry of N.txnindex: a transaction whose abort marker
// stands in segment N. A read_committed consumer must leave out the producer's
// records between first and last offset.
//
// Layout, big-endian, 34 bytes:
//
//	 0 version             int16  0
//	 2 producer id         int64
//	10 first offset        int64
//	18 last offset         int64  of the marker
//	26 last stable offset  int64  when the marker was appended
type abortedTxn struct {
	producerID       int64
	firstOffset      int64
	lastOffset       int64
	lastStableOffset int64
}

const txnEntrySize = 34

func appendAborted(dst []byte, txns []abortedTxn) []byte {
	be := binary.BigEndian
	for _, t := range txns {
		dst = be.AppendUint16(dst, 0)
		dst = be.AppendUint64(dst, uint64(t.producerID))
		dst = be.AppendUint64(dst, uint64(t.firstOffset))
		dst = be.AppendUint64(dst, uint64(t.lastOffset))
		dst = be.AppendUint64(dst, uint64(t.lastStableOffset))
	}
	return dst
}

func parseAborted(data []byte) ([]abortedTxn, error) {
	if len(data)%txnEntrySize != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of %d-byte entries", len(data), txnEntrySize)
	}
	be := binary.BigEndian
	var txns []abortedTxn
	for at := 0; at < len(data); at += txnEntrySize {
		e := data[at:]
		if version := be.Uint16(e); version != 0 {
			return nil, fmt.Errorf("byte %d: version %d is unknown, want 0", at, version)
		}
		t := abortedTxn{
			producerID: int64(be.Uint64(e[2:])), firstOffset: int64(be.Uint64(e[10:])),
			lastOffset: int64(be.Uint64(e[18:])), lastStableOffset: int64(be.Uint64(e[26:])),
		}
		if n := len(txns); n > 0 && txns[n-1].lastOffset >= t.lastOffset {
			return nil, fmt.Errorf("byte %d: marker %d is not behind %d", at, t.lastOffset, txns[n-1].lastOffset)
		}
		txns = append(txns, t)
	}
	return txns, nil
}
