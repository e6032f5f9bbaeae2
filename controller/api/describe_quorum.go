package api

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// describeQuorum answers for __cluster_metadata-0 alone, on the leader alone, as
// Kafka does: anything else fails partition by partition. Errors of v2 have
// their text and no error the empty one.
func (h *handlers) describeQuorum(c call) answer {
	req := c.body.(*kmsg.DescribeQuorumRequest)
	return func(context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.ErrorMessage = new(string)
		if !asksForMetadataLog(req) {
			refuseQuorum(req, resp, protocol.ErrUnknownTopicOrPartition, "This server does not host this topic-partition.")
			return resp, nil
		}
		status, img, err := h.Controller.Quorum()
		if err != nil {
			refuseQuorum(req, resp, protocol.ErrNotLeaderForPartition,
				"For requests intended only for the leader, this error indicates that the broker is not the current leader. "+
					"For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.")
			return resp, protocol.ErrNotController
		}
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = protocol.MetadataTopic
		p := quorumPartition(status, img)
		p.Observers = append(p.Observers, h.observerStates(status)...)
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		resp.Nodes = h.nodes(status, img)
		return resp, nil
	}
}

func asksForMetadataLog(req *kmsg.DescribeQuorumRequest) bool {
	return len(req.Topics) == 1 && req.Topics[0].Topic == protocol.MetadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
}

func refuseQuorum(req *kmsg.DescribeQuorumRequest, resp *kmsg.DescribeQuorumResponse, code protocol.Error, text string) {
	for _, asked := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = asked.Topic
		for _, p := range asked.Partitions {
			refused := kmsg.NewDescribeQuorumResponseTopicPartition()
			refused.Partition, refused.ErrorCode, refused.ErrorMessage = p.Partition, int16(code), &text
			topic.Partitions = append(topic.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

func quorumPartition(status raftlog.Status, img *metadata.Image) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.ErrorMessage = new(string)
	p.LeaderID, p.LeaderEpoch = int32(status.Leadership.Leader), int32(status.Leadership.Epoch)
	p.HighWatermark = img.Offset() + 1
	for _, peer := range status.Voters {
		p.CurrentVoters = append(p.CurrentVoters, replicaState(status, peer, p.HighWatermark))
	}
	for _, peer := range status.Observers {
		p.Observers = append(p.Observers, replicaState(status, peer, p.HighWatermark))
	}
	return p
}

// replicaState tells how far a peer is. Raft counts entries and Kafka records; a
// peer that lacks n entries lacks at least n records, so that is what it is shown
// to lack.
func replicaState(status raftlog.Status, peer raftlog.Peer, end int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	s.ReplicaID, s.ReplicaDirectoryID = int32(peer.ID), peer.DirectoryID
	s.LastFetchTimestamp, s.LastCaughtUpTimestamp = peer.LastFetchMs, peer.CaughtUpMs
	s.LogEndOffset = end
	if peer.AckedIndex < status.LastIndex {
		s.LogEndOffset = max(0, end-int64(status.LastIndex-peer.AckedIndex))
	}
	return s
}

// observerStates are those who fetch the metadata log. A voter that does is no
// observer.
func (h *handlers) observerStates(status raftlog.Status) (states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	for _, o := range h.observers.list(status.Leadership.Epoch, time.Now()) {
		if slices.ContainsFunc(status.Voters, func(v raftlog.Peer) bool {
			return v.ID == o.id && (v.DirectoryID == o.directory || v.DirectoryID == protocol.ZeroUUID)
		}) {
			continue
		}
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = int32(o.id), o.directory, o.leo
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = o.fetched.UnixMilli(), -1
		if !o.caughtUp.IsZero() {
			s.LastCaughtUpTimestamp = o.caughtUp.UnixMilli()
		}
		states = append(states, s)
	}
	return states
}

// nodes are where the voters listen: in a dynamic quorum as the log has it, else as
// they registered.
func (h *handlers) nodes(status raftlog.Status, img *metadata.Image) []kmsg.DescribeQuorumResponseNode {
	var nodes []kmsg.DescribeQuorumResponseNode
	for _, peer := range status.Voters {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = int32(peer.ID)
		listens := func(name, host string, port uint16) {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = name, host, port
			node.Listeners = append(node.Listeners, l)
		}
		known := h.Controller.VoterEndpoints(peer.ID)
		for _, e := range known {
			listens(e.Name, e.Host, e.Port)
		}
		if c, ok := img.Controller(peer.ID); ok && known == nil {
			for _, e := range c.Endpoints {
				listens(e.Name, e.Host, e.Port)
			}
		}
		nodes = append(nodes, node)
	}
	return nodes
}
