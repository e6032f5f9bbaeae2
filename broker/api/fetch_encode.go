package api

import (
	"encoding/binary"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// fetchWriter writes the body of a FetchResponse in pieces, so that record bytes
// go from file to socket without passing through here:
//
//	throttle time   int32
//	error code      int16   v7+
//	session id      int32   v7+
//	topics          array
//	  name          string  up to v12
//	  id            uuid    v13+
//	  partitions    array
//	    partition          int32
//	    error code         int16
//	    high watermark     int64
//	    last stable offset int64
//	    log start offset   int64   v5+
//	    aborted            nullable array of (producer id int64, first offset int64)
//	    preferred replica  int32   v11+
//	    records            bytes
//	    tags               v12+: 0 diverging epoch (epoch int32, end offset int64),
//	                             1 current leader (id int32, epoch int32)
//	  tags          v12+
//	tags            v12+: 0 node endpoints, v16+
//
// From v12 on lengths are varints and arrays count from one (KIP-482).
type fetchWriter struct {
	flexible bool
	version  int16
	inTopic  bool // a topic is open: its tags are still to come
	buf      []byte
	start    int // where the piece that is being written begins in buf
	parts    []server.Part
}

func newFetchWriter(version int16, sizeHint, regions int) *fetchWriter {
	return &fetchWriter{
		flexible: version >= 12, version: version,
		buf:   make([]byte, 0, sizeHint),
		parts: make([]server.Part, 0, 2*regions+1),
	}
}

// finish returns the pieces.
func (w *fetchWriter) finish() []server.Part {
	w.cut()
	return w.parts
}

// cut ends the piece of bytes. What was written stays where it is: should buf
// grow later, the piece goes on aliasing the old array.
func (w *fetchWriter) cut() {
	if len(w.buf) > w.start {
		w.parts = append(w.parts, server.Part{Bytes: w.buf[w.start:len(w.buf):len(w.buf)]})
		w.start = len(w.buf)
	}
}

func (w *fetchWriter) int16(v int16) { w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(v)) }
func (w *fetchWriter) int32(v int32) { w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(v)) }
func (w *fetchWriter) int64(v int64) { w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(v)) }

// length writes the length of an array or of bytes.
func (w *fetchWriter) length(n int) {
	if w.flexible {
		w.buf = binary.AppendUvarint(w.buf, uint64(n)+1)
		return
	}
	w.int32(int32(n))
}

// null writes the length of an array that is null.
func (w *fetchWriter) null() {
	if w.flexible {
		w.buf = append(w.buf, 0)
		return
	}
	w.int32(-1)
}

func (w *fetchWriter) string(s string) {
	if w.flexible {
		w.buf = binary.AppendUvarint(w.buf, uint64(len(s))+1)
	} else {
		w.int16(int16(len(s)))
	}
	w.buf = append(w.buf, s...)
}

func (w *fetchWriter) nullableString(s *string) {
	switch {
	case s != nil:
		w.string(*s)
	case w.flexible:
		w.buf = append(w.buf, 0)
	default:
		w.int16(-1)
	}
}

// noTags writes an empty section of tagged fields.
func (w *fetchWriter) noTags() {
	if w.flexible {
		w.buf = append(w.buf, 0)
	}
}

func (w *fetchWriter) header(code protocol.Error, session int32, topics int) {
	w.int32(0) // throttle time
	if w.version >= 7 {
		w.int16(int16(code))
		w.int32(session)
	}
	w.length(topics)
}

// topic begins a topic of so many partitions, and ends the one before.
func (w *fetchWriter) topic(name string, id protocol.UUID, partitions int) {
	w.endTopic()
	w.inTopic = true
	if w.version >= 13 {
		w.buf = append(w.buf, id[:]...)
	} else {
		w.string(name)
	}
	w.length(partitions)
}

func (w *fetchWriter) endTopic() {
	if w.inTopic {
		w.noTags()
	}
	w.inTopic = false
}

// fetchPartitionAnswer is the answer for one partition.
type fetchPartitionAnswer struct {
	partition                                       int32
	code                                            protocol.Error
	highWatermark, lastStableOffset, logStartOffset int64
	aborted                                         []abortedTransaction
	abortedNull                                     bool
	records                                         server.Region   // nil for none
	elsewhere                                       protocol.NodeID // the preferred read replica (KIP-392), NoNode for this one
	diverges                                        bool
	divergingEpoch                                  protocol.LeaderEpoch
	divergingEnd                                    int64
	currentLeader                                   protocol.NodeID // with its epoch; both −1 where nothing is said
	currentLeaderEpoch                              protocol.LeaderEpoch
}

// abortedTransaction tells a read_committed consumer what to leave out.
type abortedTransaction struct{ producerID, firstOffset int64 }

func (w *fetchWriter) partition(a *fetchPartitionAnswer) {
	w.int32(a.partition)
	w.int16(int16(a.code))
	w.int64(a.highWatermark)
	w.int64(a.lastStableOffset)
	if w.version >= 5 {
		w.int64(a.logStartOffset)
	}
	if a.abortedNull {
		w.null()
	} else {
		w.length(len(a.aborted))
	}
	for _, t := range a.aborted {
		w.int64(t.producerID)
		w.int64(t.firstOffset)
		w.noTags()
	}
	if w.version >= 11 {
		w.int32(int32(a.elsewhere))
	}
	w.records(a.records)
	if w.flexible {
		w.partitionTags(a)
	}
}

func (w *fetchWriter) records(r server.Region) {
	if r == nil {
		w.length(0)
		return
	}
	w.length(r.Size())
	w.cut()
	w.parts = append(w.parts, server.Part{Region: r})
}

func (w *fetchWriter) partitionTags(a *fetchPartitionAnswer) {
	leader := a.currentLeader != protocol.NoNode || a.currentLeaderEpoch != -1
	count := byte(0)
	if a.diverges {
		count++
	}
	if leader {
		count++
	}
	w.buf = append(w.buf, count)
	if a.diverges {
		w.buf = append(w.buf, 0, 4+8+1) // tag, size
		w.int32(int32(a.divergingEpoch))
		w.int64(a.divergingEnd)
		w.noTags()
	}
	if leader {
		w.buf = append(w.buf, 1, 4+4+1)
		w.int32(int32(a.currentLeader))
		w.int32(int32(a.currentLeaderEpoch))
		w.noTags()
	}
}

// nodeEndpoint is where a leader that the answer names can be reached (KIP-951).
type nodeEndpoint struct {
	id   protocol.NodeID
	host string
	port int32
	rack *string
}

// trailer ends the body.
func (w *fetchWriter) trailer(nodes []nodeEndpoint) {
	w.endTopic()
	if !w.flexible {
		return
	}
	if len(nodes) == 0 {
		w.noTags()
		return
	}
	w.buf = append(w.buf, 1, 0) // one tag, number 0
	// The size comes first: write the array behind it and move it into place.
	at := len(w.buf)
	w.length(len(nodes))
	for _, n := range nodes {
		w.int32(int32(n.id))
		w.string(n.host)
		w.int32(n.port)
		w.nullableString(n.rack)
		w.noTags()
	}
	body := append([]byte(nil), w.buf[at:]...)
	w.buf = binary.AppendUvarint(w.buf[:at], uint64(len(body)))
	w.buf = append(w.buf, body...)
}
