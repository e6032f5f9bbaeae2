package replica

import (
	"fmt"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// Appended is what became of a batch, and the claim to ask by whether it is
// committed.
type Appended struct {
	storage.AppendResult
	// LeaderEpoch is the epoch under which the batch was appended.
	LeaderEpoch protocol.LeaderEpoch
}

// AppendAsLeader appends a batch that was validated with Config. It patches base
// offset and leader epoch in the caller's buffer. With inSync, as acks=all asks,
// it refuses with NOT_ENOUGH_REPLICAS while the ISR is below the minimum.
//
// When it returns the batch is in the log, and where this broker is the only
// in-sync replica the high watermark has passed it; unless FlushDue is set, which
// asks the caller to Flush before it answers.
func (p *Partition) AppendAsLeader(batch []byte, inSync bool, opts storage.AppendOptions) (Appended, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkRoleLocked(-1); err != nil {
		return Appended{}, err
	}
	if minimum := effectiveMinInSync(p.config.MinInSyncReplicas, p.replicas); inSync && len(p.inSync.committed) < minimum {
		return Appended{}, fmt.Errorf("%s has %d in-sync replicas, wants %d: %w",
			p.tp, len(p.inSync.committed), minimum, protocol.ErrNotEnoughReplicas)
	}
	result, err := p.log.AppendAsLeader(batch, p.leaderEpoch, opts)
	if err != nil {
		return Appended{}, fmt.Errorf("append to %s: %w", p.tp, err)
	}
	if result.FlushDue {
		p.unflushedFrom = min(p.unflushedFrom, result.FirstOffset)
		p.unflushedTo = max(p.unflushedTo, result.LastOffset+1)
	}
	p.advanceLocked()
	return Appended{AppendResult: result, LeaderEpoch: p.leaderEpoch}, nil
}

// Committed tells whether what was appended has reached the high watermark. An
// error says that it never will under this leadership, or that it has with fewer
// in-sync replicas than acks=all asks for.
func (p *Partition) Committed(a Appended) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader || a.LeaderEpoch < p.leadingSince {
		return false, protocol.ErrNotLeaderForPartition
	}
	if p.highWatermark <= a.LastOffset && broken != brokenEarly {
		return false, nil
	}
	if p.inSync.maximalSize() < effectiveMinInSync(p.config.MinInSyncReplicas, p.replicas) {
		return false, protocol.ErrNotEnoughReplicasAfterAppend
	}
	return true, nil
}

// ParkForCommit parks a waiter until Committed has news of a.
func (p *Partition) ParkForCommit(w *Waiter, a Appended) {
	p.mu.Lock()
	epoch := p.leaderEpoch
	p.mu.Unlock()
	// Under a later epoch of the same leadership the wait goes on; where the
	// epoch moves in between, Park wakes at once.
	w.Park(p, Condition{HighWatermark: a.LastOffset + 1, LEO: Never, LeaderEpoch: epoch})
}
