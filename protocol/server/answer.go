package server

import (
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// Request is one decoded request.
//
// Byte fields of Body alias the frame, whose buffer is used again as soon as
// Handle has returned: what must live longer is copied. Strings are safe.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is empty for null too.
	ClientID string
	// Body has its version set.
	Body kmsg.Request
	// Conn is the connection that it came by.
	Conn *Conn
	// Received is when its frame was complete.
	Received time.Time
	// FrameSize is the size of the request on the wire without the size
	// field, for quotas and metrics.
	FrameSize int
}

// Handler does the ordered part of a request and says how it is answered. It
// runs on the connection's reader goroutine: while it runs nothing else of the
// connection is read. ctx ends with the connection and carries cancellation
// only.
type Handler func(ctx context.Context, req *Request) Answer

// Answer is how a request is answered. Exactly one of the fields is set.
type Answer struct {
	// Response is encoded by the server in the request's version.
	Response kmsg.Response
	// Wait completes the answer later: a parked fetch, acks=all. It runs on
	// the connection's writer goroutine when all earlier answers have been
	// written, owns its deadline, and returns soon after ctx has ended. It is
	// called exactly once, with an ended ctx if the connection is gone by
	// then, so that it may take back what its handler registered.
	Wait func(ctx context.Context) Answer
	// Parts are the encoded body without response header, in pieces.
	Parts []Part
	// None says that the request gets no answer at all (acks=0).
	None bool
	// Close ends the connection once earlier answers have been written. It
	// is logged at debug.
	Close error
}

// Part is a piece of an encoded body: bytes, or a region of a file.
type Part struct {
	Bytes  []byte
	Region Region
}

// Region is a range of a file that goes to the socket without passing through
// our memory where that is possible. Its bytes must not change and must not go
// away before Release.
type Region interface {
	// Size is the number of bytes; it does not change.
	Size() int
	// ReadAt reads from the region, off counted from its start.
	ReadAt(p []byte, off int64) (int, error)
	// File returns the file and the region's position in it; ok is false
	// where there is no real file (in tests).
	File() (f *os.File, pos int64, ok bool)
	// Release gives the region back. The server calls it exactly once,
	// whether the region was sent or not.
	Release()
}

// release gives back the regions of an answer.
func (a *Answer) release() {
	for i := range a.Parts {
		if r := a.Parts[i].Region; r != nil {
			a.Parts[i].Region = nil
			r.Release()
		}
	}
}

// API is a served API: its key, the versions served (inclusive) and who
// handles it.
type API struct {
	Key, Min, Max int16
	Handle        Handler
	// RunsAhead lets a request be handled while earlier requests of APIs that
	// run ahead are unanswered. Everything else waits until all earlier
	// answers have been written, as Kafka's connections do one request at a
	// time. Only Produce sets it.
	RunsAhead bool
}

// Serve is an API in all versions that Kafka has of it.
func Serve(key kmsg.Key, handle Handler) API {
	info, ok := protocol.API(key.Int16())
	if !ok {
		panic("protocol/server: Kafka has no API " + key.Name())
	}
	return API{Key: info.Key, Min: info.Min, Max: info.Max, Handle: handle}
}
