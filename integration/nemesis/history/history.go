package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind is what an event is.
type Kind string

// The kinds of events. Whatever a client does with a partition it tells in the
// order in which it did it.
const (
	Send    Kind = "send"    // a value was given to a producer
	Ack     Kind = "ack"     // it is at an offset
	Refused Kind = "refused" // it is not in the log, and never will be
	Unknown Kind = "unknown" // it may be in the log, once, or not
	Read    Kind = "read"    // a consumer was given the record at an offset
	Glimpse Kind = "glimpse" // the same, of a consumer that need not see all, nor in order
	Moved   Kind = "moved"   // a consumer was given a partition anew, and may begin elsewhere
	Final   Kind = "final"   // a record of the last reading, which is of the whole log
	Fault   Kind = "fault"   // something was done to the cluster
)

// Event is one line of a history.
type Event struct {
	At        time.Duration `json:"at,omitempty"` // since the beginning
	Kind      Kind          `json:"kind"`
	Client    string        `json:"client,omitempty"`
	Group     string        `json:"group,omitempty"` // the consumers that together read all, "" is the client alone
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	Value     string        `json:"value,omitempty"`
	Repeats   bool          `json:"repeats,omitempty"` // the producer may send it again by itself, and is not idempotent
	Note      string        `json:"note,omitempty"`    // the error, the fault
}

func (e Event) String() string {
	s := fmt.Sprintf("%9.3f %s %s", e.At.Seconds(), e.Client, e.Kind)
	if e.Kind == Fault {
		return s + " " + e.Note
	}
	return fmt.Sprintf("%s %s at %d of partition %d %s", s, e.Value, e.Offset, e.Partition, e.Note)
}

// Recorder takes down what clients do and see. Many goroutines may use it.
type Recorder struct {
	began time.Time

	mu     sync.Mutex
	events []Event
}

// NewRecorder is an empty history that begins now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Add takes down an event, with the time.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.began)
	r.events = append(r.events, e)
}

// Events are those so far. They are not to be changed.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// Write writes events as lines of JSON.
func Write(w io.Writer, events []Event) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return buf.Flush()
}
