package api

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// fetchSnapshot serves a checkpoint's file piece by piece (KIP-630), so that the
// follower's copy is the same to the byte. Nothing is kept between two pieces:
// a checkpoint that is removed meanwhile is not found, and the follower begins
// with another.
//
// Kafka 4.4 means to answer the same codes, trips over the bytes that such an
// answer does not have, and says UNKNOWN_SERVER_ERROR for the whole request;
// followers of both kinds take either.
func (h *handlers) fetchSnapshot(c call) answer {
	req := c.body.(*kmsg.FetchSnapshotRequest)
	return func(context.Context) (kmsg.Response, error) { return h.snapshotPiece(req), nil }
}

func (h *handlers) snapshotPiece(req *kmsg.FetchSnapshotRequest) *kmsg.FetchSnapshotResponse {
	resp := kmsg.NewPtrFetchSnapshotResponse()
	if req.ClusterID != nil && *req.ClusterID != h.Metadata.ClusterID {
		resp.ErrorCode = int16(protocol.ErrInconsistentClusterID)
		return resp
	}
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		resp.ErrorCode = int16(protocol.ErrInvalidRequest)
		return resp
	}
	leadership, _ := h.Metadata.Leadership()
	asked := &req.Topics[0].Partitions[0]
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.Partition = asked.Partition
	switch code := leaderOnly(leadership, asked.CurrentLeaderEpoch); {
	case req.Topics[0].Topic != protocol.MetadataTopic || asked.Partition != 0:
		p.ErrorCode = int16(protocol.ErrUnknownTopicOrPartition)
	case code != protocol.None:
		p.ErrorCode = int16(code)
	default:
		err := h.Metadata.readSnapshot(asked, min(req.MaxBytes, maxFetchBytes), &p)
		p.ErrorCode = h.code(err, kmsg.FetchSnapshot)
	}
	h.addSnapshotLeader(leadership, resp, &p)
	topic := kmsg.NewFetchSnapshotResponseTopic()
	topic.Topic = req.Topics[0].Topic
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func (h *handlers) addSnapshotLeader(l raftlog.Leadership, resp *kmsg.FetchSnapshotResponse, p *kmsg.FetchSnapshotResponseTopicPartition) {
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(l.Leader), int32(l.Epoch)
	if host, port, ok := h.Metadata.Endpoint(l.Leader); ok {
		e := kmsg.NewFetchSnapshotResponseNodeEndpoint()
		e.NodeID, e.Host, e.Port = int32(l.Leader), host, port
		resp.NodeEndpoints = append(resp.NodeEndpoints, e)
	}
}

// readSnapshot reads a piece of a checkpoint into an answer.
func (m *MetadataLog) readSnapshot(asked *kmsg.FetchSnapshotRequestTopicPartition, maxBytes int32, p *kmsg.FetchSnapshotResponseTopicPartition) error {
	id := snapshot.ID{Offset: asked.SnapshotID.EndOffset, Epoch: protocol.ControllerEpoch(asked.SnapshotID.Epoch)}
	if id.Offset <= 0 || id.Epoch < 0 { // 0-0 is no state: the first leader writes it into the log
		return protocol.ErrSnapshotNotFound
	}
	f, err := m.FS.Open(filepath.Join(m.Dir, id.FileName()))
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.ErrSnapshotNotFound
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if asked.Position < 0 || asked.Position >= size {
		return protocol.ErrPositionOutOfRange
	}
	piece := make([]byte, min(int64(max(maxBytes, 0)), size-asked.Position))
	if n, err := f.ReadAt(piece, asked.Position); n < len(piece) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.Offset, int32(id.Epoch)
	p.Size, p.Position, p.Bytes = size, asked.Position, piece
	return nil
}
