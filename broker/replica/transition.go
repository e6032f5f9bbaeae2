package replica

import (
	"slices"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// action is what a change of the metadata means for the replica on this broker.
type action int

const (
	// actionNone: nothing here changes, or the news is older than what is known.
	actionNone action = iota
	// actionLead: this broker leads from now on, under a new leader epoch.
	actionLead
	// actionUpdate: the leader and its epoch stay, what is around it (ISR,
	// replicas, partition epoch) does not.
	actionUpdate
	// actionFollow: somebody else leads, or nobody.
	actionFollow
	// actionDelete: the topic or the assignment says that this broker holds no
	// replica any more.
	actionDelete
)

func (a action) String() string {
	return [...]string{"none", "lead", "update", "follow", "delete"}[a]
}

// known is what this broker does for a partition until now.
type known struct {
	hosted         bool // there is a replica here
	leaderEpoch    protocol.LeaderEpoch
	partitionEpoch protocol.PartitionEpoch
}

// transition decides what broker local does about a partition: what LeaderAndIsr
// and StopReplica requests once said. After is nil for a partition that is no
// more. An older leader epoch than the known one is never acted on: images come
// in order, so it can only be an echo of a topic that this replica left behind.
func transition(local protocol.NodeID, now known, after *metadata.Partition) action {
	switch {
	case after == nil || !slices.Contains(after.Replicas, local):
		if now.hosted {
			return actionDelete
		}
		return actionNone
	case !now.hosted:
		if after.Leader == local {
			return actionLead
		}
		return actionFollow
	case after.LeaderEpoch < now.leaderEpoch:
		return actionNone
	case after.LeaderEpoch > now.leaderEpoch:
		if after.Leader == local {
			return actionLead
		}
		return actionFollow
	case after.PartitionEpoch > now.partitionEpoch:
		return actionUpdate
	}
	return actionNone
}
