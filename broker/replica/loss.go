package replica

import (
	"slices"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// An unclean election costs records, and which ones nobody knows until those come back
// who had them: what they cut off is it. The leader says it in its log, and the
// controller in the record that takes the replica back into the ISR.

// recovering is the leader recovery state since an election that may have lost records
// (KIP-704).
const recovering int8 = 1

// diverged is how far the log of a follower reached that parts from the leader's.
type diverged struct {
	end, highWatermark int64
	epoch              protocol.BrokerEpoch
}

// uncleanLocked tells whether an image makes this broker the leader without its
// having been in sync. After a start the election may have been long ago.
func (p *Partition) uncleanLocked(after *metadata.Partition) bool {
	isr := p.inSync.committed
	return p.partitionEpoch >= 0 && after.LeaderRecovery == recovering &&
		(p.recovery != recovering || len(isr) > 0 && !slices.Contains(isr, p.local))
}

// followerDiverges takes note of a follower whose log parts from this one.
func (p *Partition) followerDiverges(req FetchRequest, epoch protocol.LeaderEpoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.followerLocked(req.Replica); f != nil && p.role == roleLeader && p.leaderEpoch == epoch && f.diverged == nil {
		f.diverged = &diverged{end: req.Offset, highWatermark: req.HighWatermark, epoch: req.ReplicaEpoch}
	}
}

// cutLocked takes note of what a follower has cut off that now goes on at an offset.
// What nobody was promised is no loss: it is one where it was committed, or where this
// leader was elected without having been in sync.
func (p *Partition) cutLocked(f *follower, offset int64) {
	d := f.diverged
	f.diverged = nil
	if d.epoch != f.epoch {
		return // it may have another disk
	}
	loss := protocol.Loss{From: offset, To: d.end, Committed: offset}
	if d.highWatermark != Never {
		loss.Committed = max(offset, min(d.highWatermark, d.end))
	}
	if loss.IsZero() || loss.Committed == offset && p.recovery != recovering {
		return
	}
	f.loss = f.loss.With(loss)
	p.events.gaveUp(p.tp, f.id, loss)
}

// lossLocked is what those had to cut off who come into the ISR.
func (p *Partition) lossLocked(isr []protocol.NodeID) (loss protocol.Loss) {
	for i := range p.followers {
		f := &p.followers[i]
		if slices.Contains(isr, f.id) && !slices.Contains(p.inSync.committed, f.id) {
			loss = loss.With(f.loss)
		}
	}
	return loss
}

func (p *Partition) followerLocked(id protocol.NodeID) *follower {
	for i := range p.followers {
		if p.followers[i].id == id {
			return &p.followers[i]
		}
	}
	return nil
}
