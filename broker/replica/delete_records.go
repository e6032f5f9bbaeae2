package replica

import (
	"fmt"
	"math"

	"github.com/klamm/klamm/protocol"
)

// UpToHighWatermark asks DeleteRecords for everything that consumers can see.
const UpToHighWatermark int64 = -1

// Deletion is the claim to ask by whether records are gone everywhere.
type Deletion struct {
	// Before is the first offset that stays.
	Before int64
}

// DeleteRecords raises the log start to an offset, UpToHighWatermark for all
// that is committed. At or below the present start it changes nothing. Other
// replicas follow with what they fetch: ask Deleted.
func (p *Partition) DeleteRecords(offset int64) (Deletion, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkRoleLocked(-1); err != nil {
		return Deletion{}, err
	}
	if !p.config.Deletes {
		return Deletion{}, protocol.Errorf(protocol.ErrPolicyViolation,
			"Records of partition %s can not be deleted due to the configured policy", p.tp)
	}
	if offset == UpToHighWatermark {
		offset = p.highWatermark
	}
	if offset < 0 || offset > p.highWatermark {
		return Deletion{}, fmt.Errorf("delete %s up to %d, the high watermark is %d: %w",
			p.tp, offset, p.highWatermark, protocol.ErrOffsetOutOfRange)
	}
	if err := p.log.AdvanceLogStart(offset); err != nil {
		return Deletion{}, fmt.Errorf("advance log start of %s: %w", p.tp, err)
	}
	p.waiters.wakeWatches() // followers are to hear of it
	return Deletion{Before: offset}, nil
}

// SaveDeletion makes a deletion durable on this replica. It takes a sync, or
// waits for somebody else's.
func (p *Partition) SaveDeletion() error {
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	if log == nil {
		return protocol.ErrNotLeaderForPartition
	}
	if err := log.SaveLogStart(); err != nil {
		return fmt.Errorf("save log start of %s: %w", p.tp, err)
	}
	return nil
}

// Deleted returns the low watermark, the lowest log start of all replicas on
// brokers that are alive, and whether the records below the deletion are gone on
// all of them.
func (p *Partition) Deleted(d Deletion, alive func(protocol.NodeID) bool) (low int64, done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.checkRoleLocked(-1); err != nil {
		return -1, false, err
	}
	low = lowWatermark(p.log.LogStartOffset(), p.followers, alive)
	return low, low >= d.Before, nil
}

// ParkForDeletion parks a waiter until all replicas have deleted, or Deleted has
// other news. A replica whose broker dies gives no sign of it.
func (p *Partition) ParkForDeletion(w *Waiter, d Deletion) {
	p.mu.Lock()
	epoch := p.leaderEpoch
	p.mu.Unlock()
	w.Park(p, Condition{HighWatermark: Never, LEO: Never, LowWatermark: d.Before, LeaderEpoch: epoch})
}

// lowWatermark is the lowest log start of the leader and of those followers that
// are alive. One that has not told its start yet holds it at 0.
func lowWatermark(leaderStart int64, followers []follower, alive func(protocol.NodeID) bool) int64 {
	low := leaderStart
	for _, f := range followers {
		if alive(f.id) {
			low = min(low, f.start)
		}
	}
	return low
}

// lowWatermarkLocked is the low watermark over all replicas, for who waits.
func (p *Partition) lowWatermarkLocked() int64 {
	if p.log == nil {
		return math.MinInt64
	}
	return lowWatermark(p.log.LogStartOffset(), p.followers, func(protocol.NodeID) bool { return true })
}
