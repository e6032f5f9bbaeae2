package replica

import (
	"time"

	"github.com/klamm/klamm/protocol"
)

// unknownLEO stands for the LEO of a follower that has not fetched under this
// leader epoch yet. It is below every offset, so the high watermark waits for it.
const unknownLEO int64 = -1

// follower is what the leader knows of one other replica.
type follower struct {
	id  protocol.NodeID
	leo int64 // unknownLEO until its first fetch under this leader epoch
	// start is its log start, 0 until it has told it.
	start int64
	// epoch is its broker's as its last fetch told it, −1 where it did not
	// (KIP-903).
	epoch protocol.BrokerEpoch
	// caughtUp is when it last had everything that the leader had at the time of
	// a fetch. A fetch asks for what there is; having caught up with it shows at
	// the next one: so fetched is when it fetched last, and fetchedEnd the
	// leader's LEO then.
	caughtUp, fetched time.Time
	fetchedEnd        int64
	// diverged is what it said when its log parted from the leader's, nil where it
	// does not, or it has cut off what was too much; loss is what that was.
	diverged *diverged
	loss     protocol.Loss
}

// outlived tells whether a fetch is of an earlier life of the follower's broker than
// has fetched before: what it had then it may have lost.
func (f *follower) outlived(epoch protocol.BrokerEpoch) bool { return epoch >= 0 && epoch < f.epoch }

// reached takes over what a fetch says of the follower.
func (f *follower) reached(offset, leaderLEO int64, epoch protocol.BrokerEpoch, now time.Time) {
	switch {
	case offset >= leaderLEO:
		f.caughtUp = now
	case offset >= f.fetchedEnd && f.fetched.After(f.caughtUp):
		f.caughtUp = f.fetched
	}
	f.leo, f.epoch = offset, epoch
	f.fetched, f.fetchedEnd = now, leaderLEO
}

// watermarkInput is everything that the high watermark depends on.
type watermarkInput struct {
	current   int64 // the high watermark until now
	leaderLEO int64
	inSync    inSyncState
	followers []follower
	minInSync int // as effectiveMinInSync returns it
}

// nextHighWatermark returns the leader's high watermark: the smallest LEO over
// the leader and the MaximalISR, and never less than before. While the committed
// ISR is below the minimum it stays where it is (KIP-966), so that what it passes
// is on as many replicas as acks=all promises.
func nextHighWatermark(in watermarkInput) int64 {
	if len(in.inSync.committed) < in.minInSync {
		return in.current
	}
	next := in.leaderLEO
	if broken == brokenWatermark {
		next++
	}
	for _, f := range in.followers {
		if f.leo < next && in.inSync.inMaximal(f.id) && broken != brokenBound {
			next = f.leo
		}
	}
	return max(in.current, next)
}
