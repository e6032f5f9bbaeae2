package replica

import (
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
)

// ReadReplica is a follower that consumers may read from instead of the leader
// (KIP-392).
type ReadReplica struct {
	ID  protocol.NodeID
	LEO int64
	// CaughtUp is when it last had everything.
	CaughtUp time.Time
}

// ReadReplicas returns the leader, this broker, and the followers that are in sync
// and have the offset. A follower outside of the ISR is none of them: it may lag
// further and further, and consumers with it. Where this broker does not lead there
// are none, and no leader.
func (p *Partition) ReadReplicas(offset int64) (leader protocol.NodeID, followers []ReadReplica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role != roleLeader {
		return protocol.NoNode, nil
	}
	for _, f := range p.followers {
		if f.start <= offset && offset <= f.leo && slices.Contains(p.inSync.committed, f.id) {
			followers = append(followers, ReadReplica{ID: f.id, LEO: f.leo, CaughtUp: f.caughtUp})
		}
	}
	return p.local, followers
}
