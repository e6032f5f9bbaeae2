package protocol

import (
	"encoding/binary"
	"errors"
)

// Request header (KIP-482). Version 1 ends with the client id, version 2, used
// by flexible versions, adds tagged fields. The client id is never compact.
//
//	api key          int16
//	api version      int16
//	correlation id   int32
//	client id        int16 length, negative = null, then the text
//	tagged fields    version 2 only
//
// A response header is the correlation id, followed in flexible versions by
// tagged fields; ApiVersions alone never has those, since its answer must be
// readable before versions are agreed on.

// ErrHeader is a request or response header that cannot be read.
var ErrHeader = errors.New("header is malformed")

// ErrUnknownAPI is a request whose key Kafka 4.4 does not have, so that not
// even the form of its header is known.
var ErrUnknownAPI = errors.New("api key is unknown")

// RequestHeader is a parsed request header.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID aliases the frame; nil stands for null.
	ClientID []byte
}

// ParseRequestHeader reads the header of a request frame (without its size)
// and returns the body behind it. The version may be any: it is not checked.
func ParseRequestHeader(frame []byte) (RequestHeader, []byte, error) {
	var h RequestHeader
	if len(frame) < 10 {
		return h, nil, ErrHeader
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	info, ok := API(h.Key)
	if !ok {
		return h, nil, ErrUnknownAPI
	}
	// Kafka reads any negative length as null, −2 too.
	length := int16(binary.BigEndian.Uint16(frame[8:]))
	rest := frame[10:]
	if length >= 0 {
		if int(length) > len(rest) {
			return h, nil, ErrHeader
		}
		h.ClientID, rest = rest[:length:length], rest[length:]
	}
	if info.IsFlexible(h.Version) {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return h, nil, err
		}
	}
	return h, rest, nil
}

// AppendRequestHeader appends a request header. An API that is not in the
// table gets a header without tagged fields.
func AppendRequestHeader(dst []byte, key, version int16, correlationID int32, clientID string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if info, ok := API(key); ok && info.IsFlexible(version) {
		dst = append(dst, 0)
	}
	return dst
}

// AppendResponseHeader appends the header of a response to a request of that
// key and version.
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if responseHasTags(key, version) {
		dst = append(dst, 0)
	}
	return dst
}

// ParseResponseHeader reads the header of a response frame (without its size)
// and returns the correlation id and the body behind it.
func ParseResponseHeader(frame []byte, key, version int16) (int32, []byte, error) {
	if len(frame) < 4 {
		return 0, nil, ErrHeader
	}
	id, rest := int32(binary.BigEndian.Uint32(frame)), frame[4:]
	if responseHasTags(key, version) {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return id, nil, err
		}
	}
	return id, rest, nil
}

func responseHasTags(key, version int16) bool {
	info, ok := API(key)
	return ok && key != KeyAPIVersions && info.IsFlexible(version)
}

// skipTags returns what follows a section of tagged fields. Order and
// repetition are not checked, as Kafka does not.
func skipTags(buf []byte) ([]byte, error) {
	count, buf, ok := uvarint(buf)
	if !ok {
		return nil, ErrHeader
	}
	for ; count > 0; count-- {
		if _, buf, ok = uvarint(buf); !ok {
			return nil, ErrHeader
		}
		var size uint32
		if size, buf, ok = uvarint(buf); !ok || uint64(size) > uint64(len(buf)) {
			return nil, ErrHeader
		}
		buf = buf[size:]
	}
	return buf, nil
}

func uvarint(buf []byte) (uint32, []byte, bool) {
	v, n := binary.Uvarint(buf)
	if n <= 0 || v > 1<<32-1 {
		return 0, nil, false
	}
	return uint32(v), buf[n:], true
}
