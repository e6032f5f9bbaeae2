package controller

import (
	"time"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// FirstEntry returns what makes the first batch of an epoch that this node leads,
// for raftlog.Config: the LeaderChange record that opens each epoch of a KRaft
// log. voters are the static quorum. Who voted is Raft's secret; the leader
// surely did.
func FirstEntry(own protocol.NodeID, voters []protocol.NodeID) func(epoch protocol.ControllerEpoch) []byte {
	return func(epoch protocol.ControllerEpoch) []byte {
		return record.EncodeControlBatch([]record.Control{&record.LeaderChange{
			LeaderID: own, Voters: voters, GrantingVoters: []protocol.NodeID{own},
		}}, 0, epoch, time.Now().UnixMilli())
	}
}
