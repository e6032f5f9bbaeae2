package coordinator

import (
	"time"

	"github.com/klamm/klamm/protocol/batch"
)

// Token stands for a call whose answer is owed. A Machine may keep it and answer
// later. NoToken belongs to events that nobody waits for.
type Token uint64

// NoToken is owed no answer.
const NoToken Token = 0

// Machine is the state of one partition and what it decides. One goroutine calls
// it. It looks at no clock and draws no random numbers: those come with events.
type Machine interface {
	// Replay takes in a record of the partition: in order, all there are at
	// takeover, later each one that was appended. It must survive whatever bytes
	// are there.
	Replay(rec Record)
	// Loaded is called once everything was replayed.
	Loaded(now time.Time) Outcome
	// Handle decides about an event, which is a call's or a timer's.
	Handle(now time.Time, to Token, event any) Outcome
}

// Record is a record of the partition. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
	// The rest is set when the record was read or appended.
	Offset      int64
	TimestampMs int64
	// ProducerID and ProducerEpoch are those of the batch, −1 without one.
	// Transactional says that the record counts when its transaction commits.
	ProducerID    int64
	ProducerEpoch int16
	Transactional bool
	// Control marks the end of a producer's transaction (KIP-98).
	Control bool
}

// Outcome is what follows from an event.
type Outcome struct {
	// Records are appended in one batch. Where they can not be, the replies get
	// the error in place of their answers.
	Records []Record
	// Split allows several batches where the records do not fit into one: they
	// need not be atomic.
	Split bool
	// Producer makes the records part of that producer's transaction.
	Producer *batch.Producer
	// Applied says that the machine's state has the records already; they are
	// not replayed then.
	Applied bool
	// Then is told what became of the append, and returns what follows from
	// that. It is called once, before any other event, and only with Records.
	// With it the replies below are not touched by an error: it has its own.
	Then func(err error) Outcome
	// Replies are answered when everything appended so far is committed.
	Replies []Reply
	// Timers are set, moved or stopped.
	Timers []Timer
}

// Reply answers a call: with a value, or with an error.
type Reply struct {
	To     Token
	Answer any
	Err    error
}

// Timer has an event handled after a time. There is one timer per key: setting
// it again moves it. A nil Event stops it.
type Timer struct {
	Key   string
	After time.Duration
	Event any
}

// And adds what follows from something else. The records of both must not be in
// need of a Then of their own.
func (o Outcome) And(more Outcome) Outcome {
	if o.Then != nil && more.Then != nil {
		panic("coordinator: two outcomes with a Then each")
	}
	if len(o.Records) > 0 && len(more.Records) > 0 && o.Applied != more.Applied {
		panic("coordinator: records of which only some are applied")
	}
	o.Records = append(o.Records, more.Records...)
	o.Split = o.Split || more.Split
	o.Applied = o.Applied || more.Applied
	if more.Then != nil {
		o.Then = more.Then
	}
	if more.Producer != nil {
		o.Producer = more.Producer
	}
	o.Replies = append(o.Replies, more.Replies...)
	o.Timers = append(o.Timers, more.Timers...)
	return o
}
