package batch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klamm/klamm/protocol"
)

// What framing finds. All of them are protocol errors, so a handler may answer
// them as they are; a reader of a log tells the end of what was written
// (ErrIncomplete) from bytes that no writer wrote (the rest).
var (
	// ErrIncomplete: the buffer ends before the batch does. More bytes may
	// cure it; at the end of a segment it is what a crash leaves behind.
	ErrIncomplete = fmt.Errorf("batch ends early: %w", protocol.ErrCorruptMessage)
	// ErrLength: the length field is smaller than any batch.
	ErrLength = fmt.Errorf("batch length is impossible: %w", protocol.ErrCorruptMessage)
	// ErrMagic: a format version that never existed.
	ErrMagic = fmt.Errorf("batch magic is unknown: %w", protocol.ErrCorruptMessage)
	// ErrOldMagic: a message set of magic 0 or 1, which Kafka 4 does not take.
	ErrOldMagic = fmt.Errorf("batch has magic 0 or 1: %w", protocol.ErrInvalidRecord)
	// ErrCRC: the bytes are not those that the CRC was computed over.
	ErrCRC = fmt.Errorf("batch CRC does not match: %w", protocol.ErrCorruptMessage)
)

// minOldLength is the smallest length of a magic 0 message: its CRC, magic,
// attributes, key length and value length.
const minOldLength = 14

// Next cuts the first batch from buf and returns it with what follows. It
// looks at length and magic only: everything else may be wrong until CheckCRC,
// Each or Validate have said otherwise. The batch has no spare capacity.
func Next(buf []byte) (Batch, []byte, error) {
	if len(buf) < FrameSize {
		return nil, buf, ErrIncomplete
	}
	length := int32(binary.BigEndian.Uint32(buf[offsetLength:]))
	if length < minOldLength {
		return nil, buf, ErrLength
	}
	if len(buf) <= offsetMagic {
		return nil, buf, ErrIncomplete
	}
	switch magic := int8(buf[offsetMagic]); {
	case magic == 0 || magic == 1:
		return nil, buf, ErrOldMagic
	case magic != 2:
		return nil, buf, ErrMagic
	case length < HeaderSize-FrameSize:
		return nil, buf, ErrLength
	}
	size := int64(length) + FrameSize
	if int64(len(buf)) < size {
		return nil, buf, ErrIncomplete
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// PeekSize returns the size of the batch that starts with header, which must
// hold at least FrameSize bytes: what to read before Next can succeed.
func PeekSize(header []byte) (int, error) {
	if len(header) < FrameSize {
		return 0, ErrIncomplete
	}
	length := int32(binary.BigEndian.Uint32(header[offsetLength:]))
	if length < HeaderSize-FrameSize {
		return 0, ErrLength
	}
	return int(length) + FrameSize, nil
}

// CheckCRC compares the stored CRC-32C with the bytes. It returns ErrCRC.
func (b Batch) CheckCRC() error {
	if b.ComputeCRC() != b.CRC() {
		return ErrCRC
	}
	return nil
}

// Whole cuts off the batch that a Fetch answer had no room for, and checks the
// CRC of those before it; check, which may be nil, sees each of them after that.
func Whole(records []byte, check func(Batch) error) ([]byte, error) {
	rest := records
	for len(rest) > 0 {
		b, tail, err := Next(rest)
		if errors.Is(err, ErrIncomplete) {
			break
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err == nil && check != nil {
			err = check(b)
		}
		if err != nil {
			return nil, err
		}
		rest = tail
	}
	return records[:len(records)-len(rest)], nil
}
