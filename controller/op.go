package controller

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// op is one request to decide, on its way through the queue and a round.
type op struct {
	name     string
	by       string // whose request it is; "" where it is none of an administrator
	received time.Time
	deadline time.Time // zero = none
	atomic   bool      // all records or none, however many
	bytes    int       // of the request, where that can be large and may wait
	// decide runs once, on the loop's goroutine.
	decide func(o *office) (decision, error)
	// tooLate runs instead of decide where the deadline has passed; may be nil.
	tooLate func(o *office)
	// done gets the outcome, once. Size 1: the loop never waits for a waiter.
	done chan error
	// begun: decide has been called, the outcome is in the making.
	begun atomic.Bool
	// heartbeatOf is the broker that lives if this is its heartbeat; zero for any
	// other op.
	heartbeatOf life
	// failed is the outcome of an op whose answer waits for records before it.
	failed error
}

// life is one registration of a broker.
type life struct {
	broker protocol.NodeID
	epoch  protocol.BrokerEpoch
}

// decision is what came out of an op.
type decision struct {
	records []record.Record
	control []record.Control // about the log itself; they make a batch of their own
	// more says that the op is to be decided again, in another round: its records
	// are not all yet, and its answer waits.
	more bool
	// then runs right after the records have been taken into the pending image,
	// with the offsets that they get; may be nil.
	then func(first, last int64)
}

// maxPrincipal bounds what a principal, which a client may make up, costs in each
// record.
const maxPrincipal = 256

// weigh is how large a request is on the wire. In memory it is a few times that.
func weigh(req kmsg.Request) int {
	buf, _ := scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	*buf = req.AppendTo((*buf)[:0])
	size := len(*buf)
	if cap(*buf) <= 64<<10 {
		scratch.Put(buf)
	}
	return size
}

var scratch sync.Pool // of *[]byte

// explain completes the causes of records that came out of the op.
func (o *op) explain(records []record.Record) {
	by := ""
	if o.by != "" {
		by = " by " + strings.ToValidUTF8(o.by[:min(len(o.by), maxPrincipal)], "")
	}
	var what, whole string // of the record before: most say the same
	for _, rec := range records {
		cause := cmp.Or(record.CauseOf(rec), o.name)
		if cause != what {
			what, whole = cause, cause+by
		}
		record.SetCause(rec, whole)
	}
}

func (o *op) finish(err error) { o.done <- err }

// Pending is an answer in the making.
type Pending[T any] struct {
	op    *op
	value T
}

// newPending makes an op whose decide sets the value. req is what it weighs in the
// queue, nil for nothing.
func newPending[T any](req kmsg.Request, name, by string, deadline time.Time, decide func(o *office, value *T) (decision, error)) *Pending[T] {
	p := &Pending[T]{op: &op{
		name: name, by: by, received: time.Now(), deadline: deadline, done: make(chan error, 1),
	}}
	if req != nil {
		p.op.bytes = weigh(req)
	}
	p.op.decide = func(o *office) (decision, error) { return decide(o, &p.value) }
	return p
}

// commitTime is what the commit of a change may take beyond the client's deadline: what has been
// decided in time is rather answered late than as if it had not been.
const commitTime = 30 * time.Second

// Wait returns the answer once it holds: after the commit of what was decided.
// The deadline is that of the decision, as in Kafka. REQUEST_TIMED_OUT and
// NOT_CONTROLLER leave open whether there was one. It is called once.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	var late <-chan time.Time
	deadline := p.op.deadline
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case err := <-p.op.done:
			if err != nil {
				return none, err
			}
			return p.value, nil
		case <-late:
			if !p.op.atomic || !p.op.begun.Load() || deadline != p.op.deadline {
				return none, protocol.ErrRequestTimedOut
			}
			deadline = deadline.Add(commitTime)
			t := time.NewTimer(time.Until(deadline))
			defer t.Stop()
			late = t.C
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}
