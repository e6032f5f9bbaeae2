package replica

import (
	"fmt"
	"slices"

	"github.com/klamm/klamm/protocol"
)

// Position is where a replica that follows stands: what it asks its leader for.
type Position struct {
	Leader      protocol.NodeID // NoNode: nobody leads
	LeaderEpoch protocol.LeaderEpoch
	// Offset is the LEO, LastEpoch the leader epoch of the record before it, −1
	// where there is none (KIP-595).
	Offset         int64
	LastEpoch      protocol.LeaderEpoch
	LogStartOffset int64
	HighWatermark  int64
	// Throttled says that what is fetched counts for the follower's throttle.
	Throttled bool
}

// Position returns where this replica stands; ok is false where it does not
// follow.
func (p *Partition) Position() (at Position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleFollower {
		return Position{}, false
	}
	at = Position{
		Leader: p.leader, LeaderEpoch: p.leaderEpoch,
		Offset: p.log.LEO(), LastEpoch: -1,
		LogStartOffset: p.log.LogStartOffset(), HighWatermark: p.highWatermark,
		Throttled: p.throttlesItselfLocked(),
	}
	if epoch, ok := p.log.LatestEpoch(); ok {
		at.LastEpoch = epoch
	}
	return at, true
}

// errMoved says that a replica does not stand any more where it stood when its
// leader was asked.
var errMoved = fmt.Errorf("the replica has moved on: %w", protocol.ErrFencedLeaderEpoch)

// followsLocked tells whether an answer to a question of that position is still
// of use: a late one of an earlier leader must not touch the log.
func (p *Partition) followsLocked(at Position) error {
	moved := p.role != roleFollower || p.leaderEpoch != at.LeaderEpoch
	if moved && broken != brokenLate || p.log.LEO() != at.Offset {
		return errMoved
	}
	return nil
}

// AppendAsFollower appends what the leader answered to a fetch at a position,
// whole batches whose CRC was checked, none or more, and takes over how far the
// leader says that the log is committed, and where it starts.
func (p *Partition) AppendAsFollower(at Position, batches []byte, highWatermark, leaderLogStart int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(at); err != nil {
		return err
	}
	if len(batches) > 0 {
		if _, err := p.log.AppendAsFollower(batches); err != nil {
			return fmt.Errorf("append to %s: %w", p.tp, err)
		}
		p.traffic.Add(ReplicatedIn, int64(len(batches)))
		if slices.Contains(p.adding, p.local) {
			p.traffic.Add(ReassignedIn, int64(len(batches)))
		}
	}
	// Of what the leader has committed, this replica knows what it has.
	leo := p.log.LEO()
	p.leaderHighWatermark = highWatermark
	if committed := min(highWatermark, leo); committed > p.highWatermark {
		p.highWatermark = committed
		if !p.waiters.empty() {
			p.waiters.wake(committed, leo) // consumers that read from here
		}
	}
	// The leader's start says what was deleted; what is not committed here, as
	// far as is known, stays until it is.
	if start := min(leaderLogStart, p.highWatermark); start > p.log.LogStartOffset() {
		if err := p.log.AdvanceLogStart(start); err != nil {
			return fmt.Errorf("advance the start of %s to %d: %w", p.tp, start, err)
		}
	}
	return nil
}

// Truncate cuts off what the leader does not have: its log parts from this
// replica's where epoch, or the largest below it that the leader knows, ends
// there at end. The next fetch may diverge again, in an earlier epoch.
func (p *Partition) Truncate(at Position, epoch protocol.LeaderEpoch, end int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(at); err != nil {
		return err
	}
	return p.truncateLocked(divergence(epoch, end, p.log.EndOffsetFor))
}

// divergence is the offset up to which two logs are the same for certain, when
// the other one says that epoch ends at end there, and endOffsetFor tells the
// same of this one. Where this one does not know the epoch, all of the epoch
// below stays, up to where the other may have more of it (KIP-101, KIP-279).
func divergence(epoch protocol.LeaderEpoch, end int64, endOffsetFor func(protocol.LeaderEpoch) (protocol.LeaderEpoch, int64)) int64 {
	known, knownEnd := endOffsetFor(epoch)
	switch {
	case known < 0 || knownEnd < 0:
		return end
	case known < epoch:
		return knownEnd
	}
	return min(end, knownEnd)
}

func (p *Partition) truncateLocked(offset int64) error {
	leo := p.log.LEO()
	if err := p.log.TruncateTo(offset); err != nil {
		return fmt.Errorf("truncate %s to %d: %w", p.tp, offset, err)
	}
	p.truncatedLocked(offset, leo)
	return nil
}

// StartOver drops everything and goes on at an offset: the leader's log starts
// there, beyond this replica's end.
func (p *Partition) StartOver(at Position, offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(at); err != nil {
		return err
	}
	leo := p.log.LEO()
	if err := p.log.TruncateFullyAndStartAt(offset); err != nil {
		return fmt.Errorf("start %s over at %d: %w", p.tp, offset, err)
	}
	p.highWatermark = offset
	p.truncatedLocked(offset, leo)
	return nil
}

// truncatedLocked keeps the high watermark within the log. Only an unclean
// election makes it go back: what is cut off below it had been committed.
func (p *Partition) truncatedLocked(offset, leo int64) {
	if offset < p.highWatermark {
		p.events.lost(p.tp, offset, p.highWatermark)
	}
	p.highWatermark = min(p.highWatermark, p.log.LEO())
	p.events.truncated(p.tp, offset, leo)
}
