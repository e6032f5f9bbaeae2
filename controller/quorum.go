package controller

import (
	"github.com/klamm/klamm/metadata"
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
