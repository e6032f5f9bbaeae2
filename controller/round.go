package controller

import (
	"time"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// A batch ends at this many records or bytes. Followers take a batch at once:
// it must not hold up the next, and a broker with 100,000 partitions must not
// become one giant entry.
const (
	maxBatchRecords = 10_000
	maxBatchBytes   = 1 << 20
)

// recordOverhead is what a record costs in a batch besides its frame, at most:
// length, attributes, two deltas, key and header count.
const recordOverhead = 24

// round is the batches that were decided together, proposed one after another.
type round struct {
	batches []*proposal
	next    int64 // offset that the next record gets
	sealed  bool  // the next record begins a batch
	over    bool  // an op of it goes on in the next round
	scratch []byte
}

// proposal is one batch and who waits for it.
type proposal struct {
	first   int64         // offset that its first record gets
	level   feature.Level // of metadata.version, for all of its records
	records []record.Record
	control []record.Control // instead of records
	bytes   int
	ops     []*op // answered when it is committed
}

func (p *proposal) takes(level feature.Level, records, bytes int) bool {
	return p.level == level && len(p.records)+records <= maxBatchRecords && p.bytes+bytes <= maxBatchBytes
}

// full tells that no further op should be decided in this round.
func (r *round) full() bool {
	return r.over || len(r.batches) > 1 || r.sealed || len(r.batches) == 1 && !r.last().takes(r.last().level, 1, recordOverhead)
}

func (r *round) empty() bool { return len(r.batches) == 0 }

func (r *round) last() *proposal { return r.batches[len(r.batches)-1] }

var errTooLarge = protocol.Errorf(protocol.ErrPolicyViolation, "Unable to perform excessively large batch operation.")

// measure returns the sizes of records in a batch and their sum, or an error for
// the client where one of them does not even fit alone, or all of them are too
// many for a batch and need to be atomic at a level without transactions.
func (r *round) measure(o *op, level feature.Level, records []record.Record) (sizes []int, total int, err error) {
	sizes = make([]int, len(records))
	for i, rec := range records {
		r.scratch = record.AppendFrame(r.scratch[:0], rec, level)
		sizes[i] = len(r.scratch) + recordOverhead
		if sizes[i] > maxBatchBytes {
			return nil, 0, errTooLarge
		}
		total += sizes[i]
	}
	if o.atomic && !level.HasTransactions() && (len(records) > maxBatchRecords || total > maxBatchBytes) {
		return nil, 0, errTooLarge
	}
	return sizes, total, nil
}

// measureControl returns an error where control records, which all go in one batch, are
// too large for it: voters with the endpoints that they name themselves.
func measureControl(records []record.Control) error {
	if len(records) > 0 && len(record.EncodeControlBatch(records, 0, 0, 0)) > maxBatchBytes {
		return errTooLarge
	}
	return nil
}

// add takes an op's records in, at least one, with what measure said of them;
// the op is answered with the last.
func (r *round) add(o *op, level feature.Level, records []record.Record, sizes []int, total int) {
	switch {
	case !o.atomic || !r.empty() && r.last().takes(level, len(records), total):
	case len(records) <= maxBatchRecords && total <= maxBatchBytes:
		r.sealed = true
	default:
		// A transaction shares its batches with nobody: who is decided before it
		// is committed before it.
		name := o.name
		records = append(append([]record.Record{&record.BeginTransaction{Name: &name}}, records...), &record.EndTransaction{})
		sizes = append(append([]int{recordOverhead + len(name)}, sizes...), recordOverhead)
		r.sealed = true
	}
	for i, rec := range records {
		r.push(level, rec, sizes[i])
	}
	if brokenAnswer {
		o.finish(nil)
		return
	}
	r.last().ops = append(r.last().ops, o)
}

func (r *round) push(level feature.Level, rec record.Record, bytes int) {
	if r.empty() || r.sealed || !r.last().takes(level, 1, bytes) {
		r.batches = append(r.batches, &proposal{first: r.next, level: level})
		r.sealed = false
	}
	p := r.last()
	p.records = append(p.records, rec)
	p.bytes += bytes
	r.next++
	_, r.sealed = rec.(*record.EndTransaction)
}

// addControl takes an op's control records in; the op is answered with them, and not
// with the records that it has besides.
func (r *round) addControl(o *op, records []record.Control, besides bool) {
	if besides {
		r.unanswered()
	}
	r.batches = append(r.batches, &proposal{first: r.next, control: records, ops: []*op{o}})
	r.next += int64(len(records))
	r.sealed = true
}

// unanswered leaves the op that was added last without its answer.
func (r *round) unanswered() {
	last := r.last()
	last.ops = last.ops[:len(last.ops)-1]
}

// follow answers an op that has no records with those decided before it.
func (r *round) follow(o *op) { r.last().ops = append(r.last().ops, o) }

// encode is the batch as it goes to the log. The state machine gives it its
// base offset.
func (p *proposal) encode(epoch protocol.ControllerEpoch, now time.Time) []byte {
	if p.control != nil {
		return record.EncodeControlBatch(p.control, 0, epoch, now.UnixMilli())
	}
	return record.EncodeBatch(p.records, p.level, 0, epoch, now.UnixMilli())
}
