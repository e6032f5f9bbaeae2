package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klamm/klamm/protocol"
)

// The preamble of Raft's streams; doc.go has the layout.
const (
	preambleMagic   = "kmcp"
	preambleVersion = 1
	preambleSize    = 18
)

func appendPreamble(dst []byte, id ID) []byte {
	dst = append(dst, preambleMagic...)
	dst = binary.BigEndian.AppendUint16(dst, preambleVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(id.Epoch))
	return binary.BigEndian.AppendUint64(dst, uint64(id.Offset))
}

func parsePreamble(p []byte) (ID, error) {
	if string(p[:4]) != preambleMagic {
		return ID{}, errors.New("the stream is no snapshot of the metadata")
	}
	if version := binary.BigEndian.Uint16(p[4:]); version != preambleVersion {
		return ID{}, fmt.Errorf("snapshot stream version %d is unknown, %d is known", version, preambleVersion)
	}
	id := ID{
		Epoch:  protocol.ControllerEpoch(binary.BigEndian.Uint32(p[6:])),
		Offset: int64(binary.BigEndian.Uint64(p[10:])),
	}
	if id.Offset < 0 || id.Epoch < 0 {
		return ID{}, fmt.Errorf("snapshot stream of offset %d, epoch %d", id.Offset, id.Epoch)
	}
	return id, nil
}

// WritePreamble begins a stream that Store takes; the checkpoint follows.
func WritePreamble(w io.Writer, id ID) (int64, error) {
	n, err := w.Write(appendPreamble(nil, id))
	return int64(n), err
}

// ReadPreamble reads what WritePreamble wrote; the checkpoint follows.
func ReadPreamble(r io.Reader) (ID, error) {
	var p [preambleSize]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return ID{}, fmt.Errorf("snapshot stream ends in its preamble: %w", err)
	}
	return parsePreamble(p[:])
}
