package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/quota"
	"github.com/klamm/klamm/storage"
)

// FetchRequest is what a consumer, or another replica, wants of one partition.
type FetchRequest struct {
	Offset   int64
	MaxBytes int
	// MinOneBatch returns the first batch whole, however large it is.
	MinOneBatch bool
	// ReadCommitted stops at the last stable offset instead of the high watermark.
	ReadCommitted bool
	// Replica is the broker that fetches; NoNode for a consumer. ReplicaEpoch is
	// its broker epoch, −1 where it does not tell it.
	Replica      protocol.NodeID
	ReplicaEpoch protocol.BrokerEpoch
	// LogStartOffset is where that replica's own log starts; −1 for a consumer.
	LogStartOffset int64
	// HighWatermark is that which the replica knows, Never where it does not tell
	// (KIP-1166).
	HighWatermark int64
	// CurrentLeaderEpoch is the leader epoch that the fetcher believes in, −1 for
	// none (KIP-320). LastFetchedEpoch is that of the last record it has, −1 for
	// none (KIP-595).
	CurrentLeaderEpoch protocol.LeaderEpoch
	LastFetchedEpoch   protocol.LeaderEpoch
	// FollowerToo lets a follower answer as well (KIP-392).
	FollowerToo bool
	// Throttle is the rate that replicas are held to that are not in sync, where the
	// topic says so; nil is none.
	Throttle *quota.Rate
}

// Fetched is what the leader answers, or a follower.
type Fetched struct {
	Records          *storage.Slice // nil where there are none; the caller releases it
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	// Diverges says that the fetcher's log is not a prefix of ours: its last
	// epoch, or the largest below it that we know, ends at DivergingEnd here.
	Diverges       bool
	DivergingEpoch protocol.LeaderEpoch
	DivergingEnd   int64
	// Throttled says that the records count for the throttle, Held that it keeps
	// them back.
	Throttled, Held bool
	// LeaderEpoch is the epoch under which this was read.
	LeaderEpoch protocol.LeaderEpoch
}

// Fetch reads whole batches from the offset on: for consumers below the high
// watermark, or the last stable offset.
func (p *Partition) Fetch(req FetchRequest) (Fetched, error) {
	p.mu.Lock()
	if broken == brokenUnfenced {
		req.CurrentLeaderEpoch = -1
	}
	log, err := p.log, p.checkReaderLocked(req.CurrentLeaderEpoch, req.FollowerToo)
	follows := p.role == roleFollower
	if err == nil && req.Replica >= 0 {
		err = p.checkFollowerLocked(req)
	}
	throttled := p.throttledLocked(req)
	out := Fetched{HighWatermark: p.highWatermark, LeaderEpoch: p.leaderEpoch}
	p.mu.Unlock()
	if err != nil {
		return Fetched{}, err
	}

	// The log is read without mu: what is below the high watermark does not
	// change, whoever leads.
	out.LogStartOffset = log.LogStartOffset()
	out.LastStableOffset = log.LastStableOffset(out.HighWatermark)
	leo := log.LEO()
	if req.Offset < out.LogStartOffset {
		// Also where the epochs diverge: what is truncated below the start is
		// of no use to the fetcher (Kafka once answered success here).
		return Fetched{}, p.outOfRange(req.Offset, out.LogStartOffset, leo)
	}
	if req.LastFetchedEpoch >= 0 {
		epoch, end := log.EndOffsetFor(req.LastFetchedEpoch)
		if epoch < 0 || end < 0 {
			return Fetched{}, fmt.Errorf("%s knows no epoch up to %d: %w", p.tp, req.LastFetchedEpoch, protocol.ErrOffsetOutOfRange)
		}
		if epoch < req.LastFetchedEpoch || end < req.Offset {
			out.Diverges, out.DivergingEpoch, out.DivergingEnd = true, epoch, end
			if req.Replica >= 0 {
				p.followerDiverges(req, out.LeaderEpoch)
			}
			return out, nil
		}
	}
	if req.Offset > leo {
		if follows {
			// Kafka says that it is out of range, and consumers that take that for
			// the truth begin elsewhere. That this replica lags it can not know.
			return Fetched{}, fmt.Errorf("offset %d of %s is beyond this follower's end %d: %w", req.Offset, p.tp, leo, protocol.ErrOffsetNotAvailable)
		}
		return Fetched{}, p.outOfRange(req.Offset, out.LogStartOffset, leo)
	}
	limit := out.HighWatermark
	switch {
	case req.Replica >= 0:
		limit = leo
		out.Throttled = throttled
		if out.Held = throttled && req.Offset < leo && req.Throttle.Wait() > 0; out.Held {
			limit = req.Offset
		}
	case req.ReadCommitted:
		limit = out.LastStableOffset
	}
	if req.Offset < limit { // at or above it there is nothing to see, but it is in range
		if req.MaxBytes < 0 {
			return Fetched{}, fmt.Errorf("%s: %d bytes were asked for: %w", p.tp, req.MaxBytes, protocol.ErrUnknownServerError)
		}
		if out.Records, err = log.Read(req.Offset, req.MaxBytes, limit, req.MinOneBatch); err != nil {
			return Fetched{}, p.readError(req.Offset, err)
		}
		if out.Records.Size() == 0 {
			out.Records.Release()
			out.Records = nil
		}
	}
	if req.Replica >= 0 {
		out.HighWatermark = max(out.HighWatermark, p.followerReached(req, out.LeaderEpoch, leo))
	}
	return out, nil
}

// followerReached takes over how far another replica's log reaches: what it
// fetches next it does not have, and everything before it has. It returns the
// high watermark, which that may have moved.
func (p *Partition) followerReached(req FetchRequest, epoch protocol.LeaderEpoch, leo int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader || p.leaderEpoch != epoch {
		return -1 // it fetched from an earlier leadership
	}
	for i := range p.followers {
		f := &p.followers[i]
		if f.id != req.Replica {
			continue
		}
		if f.outlived(req.ReplicaEpoch) {
			return -1
		}
		if f.leo == unknownLEO {
			p.events.came(p, f.id, epoch)
		}
		f.reached(req.Offset, leo, req.ReplicaEpoch, time.Now())
		if f.diverged != nil {
			p.cutLocked(f, req.Offset)
		}
		p.advanceLocked()
		p.comesInLocked(f)
		if f.start != req.LogStartOffset {
			f.start = req.LogStartOffset
			p.waiters.wakeDeletions(p.lowWatermarkLocked())
		}
		break
	}
	return p.highWatermark
}

// comesInLocked has the ISR looked at where a follower outside of it may have
// caught up.
func (p *Partition) comesInLocked(f *follower) {
	if p.inSync.proposed == nil && f.leo >= p.highWatermark && f.leo >= p.epochStart && !slices.Contains(p.inSync.committed, f.id) {
		p.events.inSyncChanges(p)
	}
}

func (p *Partition) outOfRange(offset, start, end int64) error {
	return fmt.Errorf("offset %d of %s is outside of %d to %d: %w", offset, p.tp, start, end, protocol.ErrOffsetOutOfRange)
}

// readError tells an error of the disk from the end of the partition's life
// here, which closes its log under a reader.
func (p *Partition) readError(offset int64, err error) error {
	p.mu.Lock()
	gone := p.role == roleGone
	p.mu.Unlock()
	if gone {
		return protocol.ErrNotLeaderForPartition
	}
	return fmt.Errorf("read %s at %d: %w", p.tp, offset, err)
}

// checkFollowerLocked tells whether a broker may fetch as a replica. The leader
// itself is none of its own followers.
func (p *Partition) checkFollowerLocked(req FetchRequest) error {
	for _, f := range p.followers {
		if f.id != req.Replica {
			continue
		}
		if f.outlived(req.ReplicaEpoch) {
			return protocol.ErrNotLeaderForPartition // as Kafka answers
		}
		return nil
	}
	if req.CurrentLeaderEpoch >= 0 {
		// The epoch is right, so the fetcher may know of an assignment that has
		// not reached this broker: it shall come again.
		return protocol.ErrUnknownLeaderEpoch
	}
	return protocol.ErrNotLeaderForPartition
}

// ParkForFetch parks a waiter until there is more than a fetch has just seen: a
// higher high watermark for consumers, a higher log end for other replicas. Records
// that a throttle keeps back are there already: whoever parks comes back for them.
func (p *Partition) ParkForFetch(w *Waiter, req FetchRequest, seen Fetched) {
	cond := Condition{HighWatermark: seen.HighWatermark + 1, LEO: Never, LeaderEpoch: seen.LeaderEpoch, FollowerToo: req.FollowerToo}
	if req.Replica >= 0 && !seen.Held {
		cond.LEO = req.Offset + 1
	}
	w.Park(p, cond)
}
