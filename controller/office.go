package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// office is one stay in office. It belongs to the goroutine of Run.
type office struct {
	c     *Controller
	epoch protocol.ControllerEpoch

	// base is the committed image; pending is base and what the round decided.
	base, pending *metadata.Image
	sessions      *sessions
	began         time.Time // all sessions are granted as of then
	lastAppend    time.Time
	chores        []*chore

	round    *round
	inFlight *proposal // the first of round, or nil
	results  chan outcome
	ctx      context.Context // ends with the office: proposals do not outlive it
	cancel   context.CancelFunc
}

// outcome is what the log said of the batch in flight.
type outcome struct {
	offset int64
	err    error
}

// newOffice establishes what is committed. Fresh leadership has replayed its own
// first entry, so nothing of earlier epochs can come any more. Who comes back into
// an epoch that it left may have a batch under way: a batch behind it tells.
func newOffice(ctx context.Context, c *Controller, leadership raftlog.Leadership) (*office, error) {
	o := &office{c: c, epoch: leadership.Epoch, results: make(chan outcome, 1)}
	o.ctx, o.cancel = context.WithCancel(ctx)
	settled := leadership.Offset
	if c.lastEpoch == leadership.Epoch {
		var err error
		if settled, err = o.write(&record.NoOp{}); err != nil {
			o.cancel()
			return nil, err
		}
	}
	c.lastEpoch = leadership.Epoch
	// An image that has not got that far is held back by a transaction of an
	// earlier office, which will never end.
	if c.images.Image().Offset() < settled {
		reason := "Controller failover"
		if _, err := o.write(&record.AbortTransaction{Reason: &reason}); err != nil {
			o.cancel()
			return nil, err
		}
	}
	o.base = c.images.Image()
	o.pending = o.base
	o.began = time.Now()
	o.lastAppend, o.chores = o.began, c.chores(o.began)
	o.sessions = newSessions(c.cfg.SessionTimeout, c.cfg.Env.NodeID, o.base, o.began)
	return o, nil
}

// write appends one record outside of any round and waits for it.
func (o *office) write(rec record.Record) (int64, error) {
	p := proposal{level: o.c.images.Image().Level(), records: []record.Record{rec}}
	offset, err := o.c.log.Propose(o.ctx, o.epoch, p.encode(o.epoch, time.Now()))
	if err == nil && offset == raftlog.Skipped {
		err = protocol.ErrNotController
	}
	return offset, err
}

// end answers what is in flight or was to follow it, and waits for the proposal.
// Whether it was committed, the next controller's image will show.
func (o *office) end() {
	o.cancel()
	if o.inFlight != nil {
		<-o.results
	}
	if o.round != nil {
		for _, p := range o.round.batches {
			for _, op := range p.ops {
				op.finish(protocol.ErrNotController)
			}
		}
	}
}

// activation are the office's own first ops.
func (o *office) activation() []*op {
	var ops []*op
	if _, ok := o.base.Feature(feature.MetadataVersion); !ok {
		ops = append(ops, o.ownOp("Bootstrap records", func() []record.Record {
			return decide.Bootstrap(o.c.cfg.Bootstrap, o.c.cfg.Env)
		}))
	}
	return append(ops, o.registration()...)
}

// registration is the op that registers this controller, where it has to.
func (o *office) registration() []*op {
	reg := o.c.cfg.Registration
	if reg == nil {
		return nil
	}
	return []*op{o.ownOp("ControllerRegistration", func() []record.Record {
		known, ok := o.pending.Controller(protocol.NodeID(reg.ControllerID))
		if ok && known.IncarnationID == reg.IncarnationID || !o.pending.Level().HasControllerRegistration() {
			return nil
		}
		records, err := decide.RegisterController(o.pending, reg)
		if err != nil {
			panic(fmt.Sprintf("controller: own registration is refused: %v", err))
		}
		return records
	})}
}

// ownOp is an op that nobody waits for.
func (o *office) ownOp(name string, records func() []record.Record) *op {
	return &op{
		name: name, received: time.Now(), done: make(chan error, 1),
		decide: func(*office) (decision, error) { return decision{records: records()}, nil },
	}
}

// advance decides a round where none is under way, and proposes its next batch.
func (o *office) advance() {
	if o.inFlight != nil {
		return
	}
	if o.round == nil {
		o.decideRound()
	}
	if o.round == nil {
		return
	}
	o.inFlight = o.round.batches[0]
	now := time.Now()
	o.lastAppend = now
	data := o.inFlight.encode(o.epoch, now)
	go func() {
		offset, err := o.c.log.Propose(o.ctx, o.epoch, data)
		o.results <- outcome{offset, err}
	}()
}

// decideRound decides queued ops until the queue is empty or a batch is full.
// It leaves no round where nothing has to be written.
func (o *office) decideRound() {
	r := &round{next: o.base.Offset() + 1}
	delta := metadata.NewDelta(o.base)
	for !r.full() {
		op := o.c.next()
		if op == nil {
			break
		}
		o.decideOp(r, delta, op)
	}
	if !r.empty() {
		o.round = r
	}
}

func (o *office) decideOp(r *round, delta *metadata.Delta, op *op) {
	now := time.Now()
	d, err := o.ask(op, now)
	var sizes []int
	var total int
	level := o.pending.Level()
	if err == nil {
		op.explain(d.records)
		for i, rec := range d.records {
			d.records[i] = record.Fit(rec, level)
		}
		sizes, total, err = r.measure(op, level, d.records)
	}
	if err == nil {
		err = measureControl(d.control)
	}
	if op.failed = err; err != nil || len(d.records) == 0 && len(d.control) == 0 {
		if r.empty() {
			op.finish(err)
		} else {
			r.follow(op)
		}
		return
	}
	first := r.next
	if len(d.records) > 0 {
		r.add(op, level, d.records, sizes, total)
	}
	if d.more {
		r.unanswered()
		r.over = true
		o.c.again(op)
	}
	for _, rec := range d.records {
		if err := delta.Replay(rec); err != nil {
			// The log must not get what no node could replay.
			panic(fmt.Sprintf("controller: %s decided a record that does not fit the image at %d: %v", op.name, o.pending.Offset(), err))
		}
	}
	if len(d.control) > 0 {
		r.addControl(op, d.control, len(d.records) > 0)
	}
	o.pending = delta.Apply(r.next-1, o.epoch, now.UnixMilli())
	if d.then != nil {
		d.then(first, r.next-1)
	}
}

// ask runs the op's decision, unless it is too late to begin with it.
func (o *office) ask(op *op, now time.Time) (decision, error) {
	if op.deadline.IsZero() || now.Before(op.deadline) || op.begun.Load() {
		op.begun.Store(true)
		return op.decide(o)
	}
	if op.tooLate != nil {
		op.tooLate(o)
	}
	return decision{}, protocol.ErrRequestTimedOut
}

// settle takes the outcome of the batch in flight.
func (o *office) settle(result outcome) error {
	p := o.inFlight
	o.inFlight = nil
	switch {
	case result.err != nil:
		return fmt.Errorf("propose %d records at %d: %w", len(p.records), p.first, result.err)
	case result.offset == raftlog.Skipped:
		return fmt.Errorf("propose %d records at %d: another epoch began", len(p.records), p.first)
	case result.offset != p.first:
		panic(fmt.Sprintf("controller: a batch decided for offset %d is at %d", p.first, result.offset))
	}
	o.round.batches = o.round.batches[1:]
	done := o.round.empty()
	if done {
		o.round = nil
		before := o.base.Level()
		o.base = o.c.images.Image()
		if o.base.Offset() != o.pending.Offset() {
			panic(fmt.Sprintf("controller: the image is at %d after the batch up to %d", o.base.Offset(), o.pending.Offset()))
		}
		o.pending = o.base
		if o.base.Level() > before {
			// The higher level may have registrations of controllers.
			o.c.submitOwn(o.registration())
		}
	}
	for _, op := range p.ops {
		op.finish(op.failed)
	}
	return nil
}

// nextDue is when due has something to do at the latest.
func (o *office) nextDue() time.Time {
	next := o.sessions.nextExpiry(o.pending)
	if idle := o.c.cfg.MaxIdle; idle > 0 && o.round == nil {
		if at := o.lastAppend.Add(idle); at.Before(next) {
			next = at
		}
	}
	for _, chore := range o.chores {
		if !chore.queued && chore.next.Before(next) {
			next = chore.next
		}
	}
	return next
}

// due returns what the time asks for: silent brokers to fence, chores, a NoOp in
// an idle log.
func (o *office) due(now time.Time) []*op {
	var ops []*op
	for _, id := range o.sessions.expired(o.pending, now) {
		fence := o.ownOp("Fence", nil)
		var leaving decide.Leaving
		fence.decide = func(*office) (decision, error) { return o.fence(id, &leaving), nil }
		ops = append(ops, fence)
	}
	for _, chore := range o.chores {
		if !chore.queued && !now.Before(chore.next) {
			chore.queued = true
			ops = append(ops, o.ownOp(chore.name, func() []record.Record { return o.do(chore) }))
		}
	}
	if idle := o.c.cfg.MaxIdle; idle > 0 && o.round == nil && now.Sub(o.lastAppend) >= idle && len(ops) == 0 {
		ops = append(ops, o.ownOp("NoOp", func() []record.Record { return []record.Record{&record.NoOp{}} }))
	}
	return ops
}

// fence fences a broker unless it has been heard of since: while a commit is slow
// its heartbeats wait in the queue, maybe behind this op.
func (o *office) fence(id protocol.NodeID, leaving *decide.Leaving) decision {
	b, ok := o.pending.Broker(id)
	if !ok || !o.sessions.confirmExpiry(id, o.c.heardInQueue(life{id, b.Epoch}), time.Now()) {
		return decision{}
	}
	records, more := decide.Fence(o.pending, id, decide.SessionExpired, o.c.cfg.Env, leaving)
	o.sessions.of[id].expiring = more
	o.c.fenced(&o.c.fencedBy.timeout, id, records, more).Msg("fenced: session timed out")
	return decision{records: records, more: more}
}

// fenced counts what fences a broker, the last piece of it, and begins to log it;
// nil, which logs nothing, where that is nothing.
func (c *Controller) fenced(count *atomic.Int64, id protocol.NodeID, records []record.Record, more bool) *zerolog.Event {
	if len(records) == 0 {
		return nil
	}
	if !more {
		count.Add(1)
	}
	changed := 0
	for _, rec := range records {
		if _, ok := rec.(*record.PartitionChange); ok {
			changed++
		}
	}
	return c.logger.Info().Int32("broker", int32(id)).Int("partitions", changed).Bool("more", more)
}

// fenceGone fences a broker whose process has been found gone.
func (c *Controller) fenceGone(s suspicion) {
	var leaving decide.Leaving
	o := &op{name: "Fence", received: time.Now(), done: make(chan error, 1)}
	o.decide = func(o *office) (decision, error) {
		b, ok := o.pending.Broker(s.broker)
		if !ok || b.Epoch != s.epoch || b.InControlledShutdown || !o.sessions.confirmEnd(s, c.heardInQueue(s.life)) {
			return decision{}, nil
		}
		records, more := decide.Fence(o.pending, s.broker, decide.ProcessGone, c.cfg.Env, &leaving)
		c.fenced(&c.fencedBy.evidence, s.broker, records, more).Dur("after", time.Since(s.since)).Msg("fenced: its process is gone")
		return decision{records: records, more: more}, nil
	}
	c.submit(o)
}
