package storage

import (
	"cmp"
	"slices"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// cachedBatches is how many batches of a producer are remembered, which bounds
// how many it may have in flight (KIP-98).
const cachedBatches = 5

// noTxn is the first offset of a transaction that is not open.
const noTxn = -1

// cachedBatch is what is remembered of a batch in order to know it again.
type cachedBatch struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
	timestamp    int64 // ms, the batch's largest
}

// firstSequence is what the batch began with; sequences wrap from 2^31−1 to 0.
func (c cachedBatch) firstSequence() int32 {
	return int32((int64(c.lastSequence) - int64(c.offsetDelta)) & 0x7fffffff)
}

// producer is the state of one producer id in one log. It is a value: an
// append works on copies and puts them back when the bytes are written.
type producer struct {
	id               int64
	epoch            int16 // −1: nothing known
	coordinatorEpoch int32 // of the last end marker, −1
	lastTimestamp    int64 // ms
	txnFirstOffset   int64 // of the open transaction, or noTxn
	count            int   // of batches that are in use, oldest first
	batches          [cachedBatches]cachedBatch
	// partial: the state is from a snapshot, and batches in front of those that
	// are in use count as well, but stand in the log alone.
	partial bool
}

// firstOffset is the batch's first offset.
func (c cachedBatch) firstOffset() int64 { return c.lastOffset - int64(c.offsetDelta) }

// cached returns what is remembered of a batch; its header is enough.
func cached(b batch.Batch) cachedBatch {
	return cachedBatch{
		lastSequence: b.LastSequence(), offsetDelta: b.LastOffsetDelta(),
		lastOffset: b.LastOffset(), timestamp: b.MaxTimestamp(),
	}
}

func newProducer(id int64) producer {
	return producer{id: id, epoch: -1, coordinatorEpoch: -1, lastTimestamp: -1, txnFirstOffset: noTxn}
}

func (p *producer) lastSequence() int32 {
	if p.count == 0 {
		return -1
	}
	return p.batches[p.count-1].lastSequence
}

// setEpoch moves to another epoch, which begins without batches.
func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch = epoch
		p.count, p.partial = 0, false
	}
}

func (p *producer) addBatch(c cachedBatch) {
	if p.count == cachedBatches {
		copy(p.batches[:], p.batches[1:])
		p.count--
	}
	p.batches[p.count] = c
	p.count++
	p.partial = p.partial && p.count < cachedBatches
	p.lastTimestamp = c.timestamp
}

// duplicateOf returns the remembered batch that b repeats.
func (p *producer) duplicateOf(b batch.Batch) (cachedBatch, bool) {
	if p.epoch != b.ProducerEpoch() {
		return cachedBatch{}, false
	}
	first, last := b.BaseSequence(), b.LastSequence()
	for _, c := range p.batches[:p.count] {
		if c.lastSequence == last && c.firstSequence() == first {
			return c, true
		}
	}
	return cachedBatch{}, false
}

// follows tells whether a batch of an epoch is the next one by its sequence.
func (p *producer) follows(epoch int16, first int32) bool {
	last := p.lastOf(epoch)
	return int64(first) == int64(last)+1 || first == 0 && last == 0x7fffffff
}

// lastOf returns the last sequence in an epoch, −1 in one that only begins.
func (p *producer) lastOf(epoch int16) int32 {
	if epoch != p.epoch {
		return -1
	}
	return p.lastSequence()
}

// origin is who appends, which decides what is checked.
type origin int

const (
	// fromClient: epochs and sequences must fit.
	fromClient origin = iota
	// fromCoordinator: epochs must fit; a coordinator's records have no sequences.
	fromCoordinator
	// fromLog: another replica's leader has checked, or it stands in our log already.
	fromLog
)

// endedTxn is a transaction that a marker has ended.
type endedTxn struct {
	producerID  int64
	firstOffset int64
	marker      int64 // offset of the marker
	aborted     bool
}

// openTxn is a transaction without its marker.
type openTxn struct {
	producerID  int64
	firstOffset int64
}

// producerState is what a log knows of its producers. Guarded by Log.mu.
type producerState struct {
	byID map[int64]*producer
	// open are the transactions without a marker, by first offset.
	open []openTxn
	// ended are those whose marker may still be above the high watermark: the
	// last stable offset stays below them until it is not (KIP-98).
	ended []endedTxn
	// pending are the states after the batches that are being checked, in
	// their order, not yet true; ending the transactions that those end.
	pending []producer
	ending  []endedTxn
}

func newProducerState() *producerState {
	return &producerState{byID: map[int64]*producer{}}
}

// begin forgets what an append that failed has left pending.
func (s *producerState) begin() {
	s.pending, s.ending = s.pending[:0], s.ending[:0]
}

// current returns the state that the next batch of a producer meets.
func (s *producerState) current(id int64) producer {
	for i := len(s.pending) - 1; i >= 0; i-- {
		if s.pending[i].id == id {
			return s.pending[i]
		}
	}
	if p := s.byID[id]; p != nil {
		return *p
	}
	return newProducer(id)
}

// find returns a remembered batch that b repeats. Only batches that are in the
// log count, not those before it in the same append.
func (s *producerState) find(b batch.Batch) (cachedBatch, bool) {
	if p := s.byID[b.ProducerID()]; p != nil {
		return p.duplicateOf(b)
	}
	return cachedBatch{}, false
}

// forgotten returns the producer of a batch that seems out of order but may
// repeat one that a snapshot has left out; nil if it can not.
func (s *producerState) forgotten(b batch.Batch) *producer {
	p := s.byID[b.ProducerID()]
	if p == nil || !p.partial || p.epoch != b.ProducerEpoch() || p.follows(p.epoch, b.BaseSequence()) {
		return nil
	}
	return p
}

// add checks a batch that has a producer id and its final offsets, and notes
// what it will have changed. For an end marker b must be the whole batch;
// otherwise its header is enough.
func (s *producerState) add(b batch.Batch, from origin) error {
	p := s.current(b.ProducerID())
	if b.IsControl() {
		marker, ok := parseEndMarker(b)
		if !ok {
			return nil
		}
		if err := checkMarker(&p, b, marker, from); err != nil {
			return err
		}
		if p.txnFirstOffset != noTxn {
			s.ending = append(s.ending, endedTxn{
				producerID: p.id, firstOffset: p.txnFirstOffset, marker: b.BaseOffset(), aborted: marker.abort,
			})
		}
		p.setEpoch(b.ProducerEpoch())
		p.coordinatorEpoch = marker.coordinatorEpoch
		p.lastTimestamp = b.MaxTimestamp()
		p.txnFirstOffset = noTxn
		s.pending = append(s.pending, p)
		return nil
	}
	if err := checkData(&p, b, from); err != nil {
		return err
	}
	p.setEpoch(b.ProducerEpoch())
	p.addBatch(cached(b))
	if b.IsTransactional() && p.txnFirstOffset == noTxn {
		p.txnFirstOffset = b.BaseOffset()
	}
	s.pending = append(s.pending, p)
	return nil
}

// commit makes what is pending true. It appends the transactions that were
// aborted to aborted, as the transaction index holds them, and returns it.
func (s *producerState) commit(aborted []abortedTxn) []abortedTxn {
	for i := range s.pending {
		p := &s.pending[i]
		known := s.byID[p.id]
		if known == nil {
			known = &producer{}
			s.byID[p.id] = known
		}
		opens := p.txnFirstOffset != noTxn && p.txnFirstOffset != known.txnFirstOffset
		*known = *p
		if opens {
			s.open = append(s.open, openTxn{p.id, p.txnFirstOffset})
		}
	}
	for _, txn := range s.ending {
		if txn.aborted {
			aborted = append(aborted, abortedTxn{
				producerID: txn.producerID, firstOffset: txn.firstOffset, lastOffset: txn.marker,
				lastStableOffset: s.stableAfter(txn),
			})
		}
		s.open = slices.DeleteFunc(s.open, func(o openTxn) bool { return o.firstOffset == txn.firstOffset })
		s.ended = append(s.ended, txn)
	}
	s.begin()
	return aborted
}

// load puts a producer in place that a snapshot holds.
func (s *producerState) load(p producer) {
	s.byID[p.id] = &p
	if p.txnFirstOffset != noTxn {
		s.open = append(s.open, openTxn{p.id, p.txnFirstOffset})
		slices.SortFunc(s.open, func(a, b openTxn) int { return cmp.Compare(a.firstOffset, b.firstOffset) })
	}
}

// firstUnstable returns the first offset of a transaction that is open, or
// whose marker a reader below the high watermark does not see yet.
func (s *producerState) firstUnstable(highWatermark int64) (int64, bool) {
	s.ended = slices.DeleteFunc(s.ended, func(t endedTxn) bool { return t.marker < highWatermark })
	first, found := int64(0), false
	if len(s.open) > 0 {
		first, found = s.open[0].firstOffset, true
	}
	for _, txn := range s.ended {
		if !found || txn.firstOffset < first {
			first, found = txn.firstOffset, true
		}
	}
	return first, found
}

// stableAfter returns the last stable offset once txn has ended: where the
// first other open transaction begins, or behind the marker.
func (s *producerState) stableAfter(txn endedTxn) int64 {
	for _, o := range s.open {
		if o.producerID != txn.producerID {
			return o.firstOffset
		}
	}
	return txn.marker + 1
}

// expired tells whether a producer has been silent for so long that its state
// may go. One with an open transaction stays.
func (p *producer) expired(nowMs, afterMs int64) bool {
	return p.txnFirstOffset == noTxn && nowMs-p.lastTimestamp >= afterMs
}

// checkData checks a data batch against the state of its producer.
func checkData(p *producer, b batch.Batch, from origin) error {
	if from == fromLog {
		return nil
	}
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	if epoch < p.epoch {
		return protocol.Errorf(protocol.ErrInvalidProducerEpoch,
			"epoch %d of producer %d is behind %d", epoch, p.id, p.epoch)
	}
	if from == fromClient && p.epoch != -1 {
		// An unknown producer, or one whose state has expired, may begin anywhere.
		if !p.follows(epoch, first) {
			return protocol.Errorf(protocol.ErrOutOfOrderSequenceNumber,
				"sequence %d of producer %d in epoch %d does not follow %d", first, p.id, epoch, p.lastOf(epoch))
		}
	}
	if p.txnFirstOffset != noTxn && !b.IsTransactional() {
		return protocol.Errorf(protocol.ErrInvalidTxnState,
			"producer %d has a transaction open from offset %d, but this batch is not transactional",
			p.id, p.txnFirstOffset)
	}
	return nil
}

// endMarker is the content of a control record that ends a transaction.
type endMarker struct {
	abort            bool
	coordinatorEpoch int32
}

func checkMarker(p *producer, b batch.Batch, marker endMarker, from origin) error {
	if from == fromLog {
		return nil
	}
	if b.ProducerEpoch() < p.epoch {
		return protocol.Errorf(protocol.ErrInvalidProducerEpoch,
			"epoch %d of producer %d is behind %d", b.ProducerEpoch(), p.id, p.epoch)
	}
	if marker.coordinatorEpoch < p.coordinatorEpoch {
		return protocol.Errorf(protocol.ErrTransactionCoordinatorFenced,
			"coordinator epoch %d of producer %d is behind %d", marker.coordinatorEpoch, p.id, p.coordinatorEpoch)
	}
	return nil
}
