package controller

import (
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Quorum is the state of the metadata log's voters, as the leader sees it.
func (c *Controller) Quorum() (raftlog.Status, *metadata.Image, error) {
	status := c.log.Status()
	if !status.Leadership.Leading {
		return status, nil, protocol.ErrNotLeaderForPartition
	}
	return status, c.images.Image(), nil
}

// VoterEndpoints are where a voter of a dynamic quorum listens, as the log has it;
// nil in a static one.
func (c *Controller) VoterEndpoints(id protocol.NodeID) []record.VoterEndpoint {
	if c.cfg.Voters == nil {
		return nil
	}
	quorum := c.cfg.Voters.Quorum()
	if quorum.Version == 0 || quorum.Voters == nil {
		return nil
	}
	for _, v := range quorum.Voters.Voters {
		if v.ID == id {
			return v.Endpoints
		}
	}
	return nil
}
