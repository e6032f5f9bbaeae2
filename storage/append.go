package storage

import (
	"fmt"
	"math"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// AppendOptions say who appends.
type AppendOptions struct {
	// Coordinator: the batches come from a coordinator on this broker, whose
	// records have no sequences and which may write end markers.
	Coordinator bool
	// Verified: the transaction coordinator has confirmed that the producer's
	// transaction includes this partition, as its first batch here needs (KIP-890).
	Verified bool
}

// AppendResult says what an append has done.
type AppendResult struct {
	// FirstOffset and LastOffset are those of the records; of the earlier append
	// where this one was a duplicate.
	FirstOffset, LastOffset int64
	// MaxTimestampMs is the largest timestamp of the batches.
	MaxTimestampMs int64
	LogStartOffset int64
	// Duplicate: an idempotent producer has sent this batch before. Nothing was
	// appended.
	Duplicate bool
	// FlushDue: so much is unsynced that the caller must Flush up to
	// LastOffset+1 before it answers, or counts the records as replicated.
	FlushDue bool
}

// AppendAsLeader appends batches and gives them their offsets and the leader
// epoch, in place: both lie outside of the CRC. The batches have been
// validated, CRC and record framing included; batches is not kept. Everything
// goes into one segment and is written at once.
//
// It fails with what an idempotent producer is answered:
// protocol.ErrInvalidProducerEpoch, ErrOutOfOrderSequenceNumber,
// ErrInvalidTxnState, ErrTransactionCoordinatorFenced; with
// ErrRecordListTooLarge where the batches are larger than a segment, and with
// ErrKafkaStorageError when the disk has failed, now or before, or is full.
func (l *Log) AppendAsLeader(batches []byte, epoch protocol.LeaderEpoch, opts AppendOptions) (AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.appendableLocked(); err != nil {
		return AppendResult{}, err
	}
	from := fromClient
	if opts.Coordinator {
		from = fromCoordinator
	}
	l.producers.begin()
	set := appendSet{first: l.leo, next: l.leo, maxTimestamp: noTimestamp}
	for rest := batches; len(rest) > 0; {
		b, tail, err := batch.Next(rest)
		if err != nil {
			return AppendResult{}, err
		}
		rest = tail
		b.SetBaseOffset(set.next)
		if broken != brokenEpoch {
			b.SetLeaderEpoch(int32(epoch))
		}
		if err := set.add(b); err != nil {
			return AppendResult{}, err
		}
		if !b.HasProducerID() {
			continue
		}
		if from == fromClient {
			known, ok := l.producers.find(b)
			if p := l.producers.forgotten(b); !ok && p != nil {
				if err := l.rememberLocked(p); err != nil {
					return AppendResult{}, err
				}
				known, ok = l.producers.find(b)
			}
			if ok {
				return AppendResult{
					FirstOffset: known.firstOffset(), LastOffset: known.lastOffset,
					MaxTimestampMs: known.timestamp, LogStartOffset: l.logStart, Duplicate: true,
				}, nil
			}
			if b.IsTransactional() && !opts.Verified && l.producers.current(b.ProducerID()).txnFirstOffset == noTxn {
				return AppendResult{}, protocol.Errorf(protocol.ErrInvalidTxnState,
					"producer %d has no transaction with this partition", b.ProducerID())
			}
		}
		if err := l.producers.add(b, from); err != nil {
			return AppendResult{}, err
		}
	}
	if set.first == set.next {
		return AppendResult{}, protocol.Errorf(protocol.ErrInvalidRecord, "nothing to append")
	}
	if err := l.owner.admit(int64(len(batches)), opts.Coordinator); err != nil {
		return AppendResult{}, err
	}
	return l.writeLocked(batches, set)
}

// AppendAsFollower appends batches with the offsets and leader epochs that
// they have: another replica's, or those of the metadata log. Their CRC has
// been checked. Offsets must not go back; gaps are what compaction leaves.
func (l *Log) AppendAsFollower(batches []byte) (AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.appendableLocked(); err != nil {
		return AppendResult{}, err
	}
	l.producers.begin()
	set := appendSet{first: -1, next: l.leo, maxTimestamp: noTimestamp}
	for rest := batches; len(rest) > 0; {
		b, tail, err := batch.Next(rest)
		if err != nil {
			return AppendResult{}, err
		}
		rest = tail
		if b.BaseOffset() < set.next {
			return AppendResult{}, fmt.Errorf("append to %s at offset %d, which is below the end %d of what is there",
				l.path, b.BaseOffset(), set.next)
		}
		if set.first < 0 {
			set.first = b.BaseOffset()
		}
		if err := set.add(b); err != nil {
			return AppendResult{}, err
		}
		if b.HasProducerID() {
			if err := l.producers.add(b, fromLog); err != nil {
				return AppendResult{}, err
			}
		}
	}
	if set.first < 0 {
		return AppendResult{FirstOffset: -1, LastOffset: l.leo - 1, MaxTimestampMs: noTimestamp, LogStartOffset: l.logStart}, nil
	}
	// A follower takes what its leader has admitted somewhat further, lest it falls
	// behind a leader that is as full; the metadata it may not crowd out.
	if l.topicID != protocol.MetadataTopicID {
		if err := l.owner.admit(int64(len(batches)), true); err != nil {
			return AppendResult{}, err
		}
	}
	return l.writeLocked(batches, set)
}

// appendableLocked returns nil for a log that can be appended to. Only a
// replica that is being made a follower truncates, so a late append of its
// leader's time is answered as such.
func (l *Log) appendableLocked() error {
	if l.cutting {
		return fmt.Errorf("%s is being truncated: %w", l.path, protocol.ErrNotLeaderForPartition)
	}
	return l.usableLocked()
}

// appendSet sums up the batches of one append.
type appendSet struct {
	first, next  int64 // offsets, next exclusive
	maxTimestamp int64
}

func (set *appendSet) add(b batch.Batch) error {
	if b.LastOffsetDelta() < 0 || b.BaseOffset() > math.MaxInt64-1-int64(b.LastOffsetDelta()) {
		return protocol.Errorf(protocol.ErrInvalidRecord,
			"offsets %d + %d are no offsets", b.BaseOffset(), b.LastOffsetDelta())
	}
	set.next = b.NextOffset()
	set.maxTimestamp = max(set.maxTimestamp, b.MaxTimestamp())
	return nil
}

// writeLocked writes batches whose headers are final and whose producers are
// pending, and makes all of it true.
func (l *Log) writeLocked(batches []byte, set appendSet) (AppendResult, error) {
	if int64(len(batches)) > int64(l.cfg.SegmentBytes) {
		return AppendResult{}, protocol.Errorf(protocol.ErrRecordListTooLarge,
			"%d bytes do not fit a segment of %d", len(batches), l.cfg.SegmentBytes)
	}
	if set.next-1-set.first > math.MaxInt32 {
		return AppendResult{}, protocol.Errorf(protocol.ErrInvalidRecord,
			"offsets %d to %d do not fit one segment", set.first, set.next-1)
	}
	if l.shouldRollLocked(int64(len(batches)), set) {
		if err := l.rollLocked(set); err != nil {
			return AppendResult{}, err
		}
	}
	s := l.activeLocked()
	file, err := l.openLocked(s)
	if err != nil {
		return AppendResult{}, err
	}
	if s.sealed || s.stale {
		if err := l.unsealLocked(s); err != nil {
			return AppendResult{}, err
		}
	}
	if _, err := file.WriteAt(batches, s.size); err != nil {
		// What is there may be half a batch. A disk that is only full lets go of it
		// and goes on; otherwise the log is offline, and its file at least ends
		// where it should.
		cut := file.Truncate(s.size)
		err = fmt.Errorf("append to segment %d of %s at byte %d: %w", s.base, l.path, s.size, err)
		if isFull(err) && cut == nil {
			return AppendResult{}, fmt.Errorf("%w: %w", protocol.ErrKafkaStorageError, err)
		}
		return AppendResult{}, l.failLocked(err)
	}
	l.owner.appended(int64(len(batches)))
	s.addHint(set.first, s.size)
	if s.size == 0 {
		s.firstTimestamp = set.maxTimestamp
	}
	for rest := batches; len(rest) > 0; {
		b := batch.Batch(rest)
		size := b.Size()
		b, rest = b[:size], rest[size:]
		if epoch := protocol.LeaderEpoch(b.LeaderEpoch()); epoch >= 0 {
			l.epochs.assign(epoch, b.BaseOffset())
		}
		s.note(b, s.size, l.cfg.IndexIntervalBytes)
		s.size += int64(size)
	}
	l.leo, s.next = set.next, set.next
	l.flushWithinLocked()
	s.aborted = l.producers.commit(s.aborted)
	return AppendResult{
		FirstOffset: set.first, LastOffset: set.next - 1, MaxTimestampMs: set.maxTimestamp,
		LogStartOffset: l.logStart, FlushDue: l.leo-l.flushedTo >= l.cfg.FlushMessages,
	}, nil
}
