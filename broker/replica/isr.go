package replica

import (
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
)

// inSyncState is the in-sync set of a partition as its leader sees it. Both
// slices belong to an image or to whoever made the proposal: never modified.
type inSyncState struct {
	// committed is the ISR as the last image has it.
	committed []protocol.NodeID
	// proposed is the ISR that the controller was asked for and that no image
	// has shown yet; nil where none is.
	proposed []protocol.NodeID
	// epochs are the brokers' of proposed when it was made: a later life of one
	// shall not come in by it.
	epochs []protocol.BrokerEpoch
}

// inMaximal tells whether a replica is in the MaximalISR: committed or proposed
// (KIP-497). A proposed member counts before the controller has agreed, since it
// may have agreed already and made it the leader; a member that is proposed to
// leave counts until that is committed, for the same reason.
func (s inSyncState) inMaximal(id protocol.NodeID) bool {
	if broken == brokenCounted && s.proposed != nil {
		return slices.Contains(s.proposed, id)
	}
	return slices.Contains(s.committed, id) || slices.Contains(s.proposed, id) && broken != brokenMaximal
}

// maximalSize is the number of members of the MaximalISR.
func (s inSyncState) maximalSize() int {
	n := len(s.committed)
	for _, id := range s.proposed {
		if !slices.Contains(s.committed, id) {
			n++
		}
	}
	return n
}

// effectiveMinInSync is the number of in-sync replicas that acks=all asks for:
// never more than there are replicas, or else a topic whose min.insync.replicas
// is above its replication factor could not be written at all.
func effectiveMinInSync(configured, replicas int) int {
	return max(1, min(configured, replicas))
}

// isrInput is everything that the ISR depends on.
type isrInput struct {
	local     protocol.NodeID
	committed []protocol.NodeID
	followers []follower
	// highWatermark and epochStart are what a follower must have reached to come
	// in: with less, it could be elected without a committed record, or without
	// having cut off what an earlier leader left it. leo is the leader's.
	highWatermark, epochStart, leo int64
	now                            time.Time
	maxLag                         time.Duration
	// lives tells a broker's epoch; ok is false for one that may not come in.
	lives func(protocol.NodeID) (epoch protocol.BrokerEpoch, ok bool)
}

// nextISR returns the ISR that the leader wants: those who are in it, but for
// who has not been caught up for too long, and who has caught up since, by their
// ids, as Kafka proposes them.
func nextISR(in isrInput) []protocol.NodeID {
	isr := make([]protocol.NodeID, 0, len(in.committed)+1)
	for _, id := range in.committed {
		i := slices.IndexFunc(in.followers, func(f follower) bool { return f.id == id })
		if id == in.local || i >= 0 && !in.lags(in.followers[i]) {
			isr = append(isr, id)
		}
	}
	for _, f := range in.followers {
		if !slices.Contains(in.committed, f.id) && in.caughtUp(f) {
			isr = append(isr, f.id)
		}
	}
	if !slices.Equal(isr, in.committed) {
		slices.Sort(isr)
	}
	return isr
}

func (in *isrInput) lags(f follower) bool {
	return f.leo != in.leo && in.now.Sub(f.caughtUp) > in.maxLag
}

func (in *isrInput) caughtUp(f follower) bool {
	if f.leo < in.highWatermark || f.leo < in.epochStart {
		return false
	}
	epoch, ok := in.lives(f.id)
	return ok && (f.epoch == epoch || f.epoch < 0)
}
