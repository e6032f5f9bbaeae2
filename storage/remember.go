package storage

import (
	"io"

	"github.com/klamm/klamm/protocol/batch"
)

// rememberWindow bounds how far in front of a producer's known batches its
// earlier ones are looked for. What it had in flight stands close together: five
// batches, and what others have written meanwhile.
const rememberWindow = 16 << 20

// rememberLocked finds the batches of a producer that a snapshot has left out:
// Kafka's format keeps the last one alone. A producer that had several in
// flight when its node stopped, in the log but unanswered, sends all of them
// again, and all of them must be known. A start reads no log for the sake of
// that; the producer's first batch that seems out of order does.
func (l *Log) rememberLocked(p *producer) error {
	p.partial = false
	var found []cachedBatch // in front of those that are known, oldest first
	missing := cachedBatches - p.count
	first, budget := p.batches[0].firstOffset(), int64(rememberWindow)
	for i := l.segmentIndexLocked(first - 1); i >= 0 && budget > 0 && len(found) < missing; i-- {
		s := l.segments[i]
		from, position, err := l.beforeLocked(s, first, budget)
		if err != nil {
			return l.rememberFailedLocked(err)
		}
		var here []cachedBatch
		if err := l.walkLocked(s, from, func(b batch.Batch, _ *scanner) error {
			if b.BaseOffset() >= first {
				return io.EOF
			}
			if b.ProducerID() == p.id && b.ProducerEpoch() == p.epoch && !b.IsControl() {
				here = append(here, cached(b))
			}
			return nil
		}); err != nil {
			return l.rememberFailedLocked(err)
		}
		found = append(here, found...)
		budget -= s.size - position
	}
	found = found[max(len(found)-missing, 0):]
	n := copy(p.batches[len(found):], p.batches[:p.count])
	copy(p.batches[:], found)
	p.count = len(found) + n
	return nil
}

// rememberFailedLocked: damage that the walk met is no reason to refuse the
// append, which then is out of order as it seemed. The disk's errors are.
func (l *Log) rememberFailedLocked(err error) error {
	if isDamage(err) {
		l.log.Warn().Err(err).Msg("a producer's earlier batches cannot be read")
		return nil
	}
	return l.failLocked(err)
}

// beforeLocked returns an offset of a segment from which on about size bytes lie
// in front of first, and the position where that is.
func (l *Log) beforeLocked(s *segment, first, size int64) (offset, position int64, err error) {
	v, err := l.viewLocked(s, &s.offsets, indexSuffix)
	if err != nil {
		return 0, 0, err
	}
	defer v.done()
	end, ok, err := v.floor(byFirst, first-s.base)
	if err != nil || !ok {
		return s.base, 0, err
	}
	start, ok, err := v.floor(bySecond, end.b-size)
	if err != nil || !ok {
		return s.base, 0, err
	}
	return s.base + start.a, start.b, nil
}
