package storage

import (
	"cmp"
	"slices"
)

// ActiveProducer is what the log remembers of a producer, for DescribeProducers.
type ActiveProducer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // −1: none in this epoch
	LastTimestampMs  int64
	CoordinatorEpoch int32 // of the last end marker, −1 for none
	TxnFirstOffset   int64 // of the open transaction, −1 for none
}

// ActiveProducers returns the producers that the log remembers, by id.
func (l *Log) ActiveProducers() []ActiveProducer {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]ActiveProducer, 0, len(l.producers.byID))
	for _, p := range l.producers.byID {
		out = append(out, ActiveProducer{
			ID: p.id, Epoch: p.epoch, LastSequence: p.lastSequence(), LastTimestampMs: p.lastTimestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnFirstOffset: p.txnFirstOffset,
		})
	}
	slices.SortFunc(out, func(a, b ActiveProducer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
