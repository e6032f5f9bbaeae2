package controller

import (
	"time"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// FirstEntry returns what makes the first batch of an epoch that this node leads,
// for raftlog.Config: the LeaderChange record that opens each epoch of a KRaft
// log. Who voted is Raft's secret; the leader surely did. In the first epoch of a
// dynamic quorum dynamic returns what its log has to say of it, and later nothing;
// it is nil for a static quorum.
func FirstEntry(own protocol.NodeID, voters []protocol.NodeID, dynamic func() []record.Control) func(epoch protocol.ControllerEpoch) []byte {
	return func(epoch protocol.ControllerEpoch) []byte {
		records := []record.Control{&record.LeaderChange{
			LeaderID: own, Voters: voters, GrantingVoters: []protocol.NodeID{own},
		}}
		if dynamic != nil {
			records = append(records, dynamic()...)
		}
		return record.EncodeControlBatch(records, 0, epoch, time.Now().UnixMilli())
	}
}
