package replica

import (
	"slices"

	"github.com/klamm/klamm/protocol"
)

// inSyncState is the in-sync set of a partition as its leader sees it. Both
// slices belong to an image or to whoever made the proposal: never modified.
type inSyncState struct {
	// committed is the ISR as the last image has it.
	committed []protocol.NodeID
	// proposed is the ISR of the AlterPartition that has not been answered yet;
	// nil where none is out.
	proposed []protocol.NodeID
}

// inMaximal tells whether a replica is in the MaximalISR: committed or proposed
// (KIP-497). A proposed member counts before the controller has agreed, since it
// may have agreed already and made it the leader; a member that is proposed to
// leave counts until that is committed, for the same reason.
func (s inSyncState) inMaximal(id protocol.NodeID) bool {
	return slices.Contains(s.committed, id) || slices.Contains(s.proposed, id)
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
