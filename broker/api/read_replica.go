package api

import (
	"cmp"
	"slices"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// elsewhere is the follower that a consumer should read a partition from; false
// where that is the leader or this broker does not lead.
func (run *fetchRun) elsewhere(it *fetchItem) (protocol.NodeID, bool) {
	if !run.h.cfg.RackAware || run.rack == "" || run.follower {
		return protocol.NoNode, false
	}
	leader, followers := it.partition.ReadReplicas(it.want.offset)
	return nearest(run.h.images.Image(), run.listener, run.rack, leader, followers)
}

// nearest chooses as Kafka's RackAwareReplicaSelector: the leader if it stands in
// the consumer's rack, else whoever does and has most, else the leader; false
// stands for the leader.
func nearest(img *metadata.Image, listener, rack string, leader protocol.NodeID, followers []replica.ReadReplica) (protocol.NodeID, bool) {
	inRack := func(id protocol.NodeID) bool {
		b, ok := img.Broker(id)
		if !ok || b.Rack == nil || *b.Rack != rack {
			return false
		}
		_, reachable := shared.Endpoint(b.Endpoints, listener)
		return reachable
	}
	followers = slices.DeleteFunc(followers, func(r replica.ReadReplica) bool { return !inRack(r.ID) })
	if len(followers) == 0 || inRack(leader) {
		return protocol.NoNode, false
	}
	return slices.MaxFunc(followers, func(a, b replica.ReadReplica) int {
		return cmp.Or(cmp.Compare(a.LEO, b.LEO), a.CaughtUp.Compare(b.CaughtUp), cmp.Compare(a.ID, b.ID))
	}).ID, true
}
