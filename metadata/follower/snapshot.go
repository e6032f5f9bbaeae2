package follower

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
)

// fetchSnapshot fetches a checkpoint and puts it in the place of log and image.
// It does not go on with a part of an earlier try: the leader may have another by
// now, and a part may be what was damaged.
func (f *Follower) fetchSnapshot(ctx context.Context, epoch protocol.ControllerEpoch, id snapshot.ID) error {
	f.log.Info().Str("checkpoint", id.FileName()).Msg("fetching a snapshot of the metadata")
	w, err := snapshot.Create(f.cfg.FS, f.cfg.Dir, id)
	if err != nil {
		return err
	}
	for done := false; !done; {
		if done, err = f.fetchPiece(ctx, epoch, id, w); err != nil {
			return errors.Join(err, w.Cancel())
		}
	}
	if err := w.Close(); err != nil {
		f.log.Error().Err(err).Msg("a snapshot from the leader is refused, fetching it again")
		f.lost()
		return tryAgain("snapshot %s: %w", id.FileName(), err)
	}
	if err := f.cfg.Replica.Install(id); err != nil {
		return err
	}
	return snapshot.Reap(f.cfg.FS, f.cfg.Dir)
}

// fetchPiece fetches what comes next and reports whether it was the last.
func (f *Follower) fetchPiece(ctx context.Context, epoch protocol.ControllerEpoch, id snapshot.ID, w *snapshot.Writer) (bool, error) {
	answer, err := f.ask(ctx, f.pieceRequest(epoch, id, w.Size()), f.cfg.RequestTimeout)
	if err != nil {
		f.lost()
		return false, tryAgain("fetch snapshot %s at %d: %w", id.FileName(), w.Size(), err)
	}
	resp, ok := answer.(*kmsg.FetchSnapshotResponse)
	if !ok || resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		f.lost()
		return false, tryAgain("fetch snapshot %s at %d: the answer is no piece of it, but %T with %w", id.FileName(), w.Size(), answer, topError(resp))
	}
	p := &resp.Topics[0].Partitions[0]
	code := protocol.Error(p.ErrorCode)
	if code == protocol.ErrSnapshotNotFound || code == protocol.ErrPositionOutOfRange {
		// The leader has another by now: it says so at the next fetch.
		return false, tryAgain("fetch snapshot %s at %d: %w", id.FileName(), w.Size(), code)
	}
	endpoints := make(map[protocol.NodeID]string)
	for _, e := range resp.NodeEndpoints {
		endpoints[protocol.NodeID(e.NodeID)] = hostPort(e.Host, int32(e.Port))
	}
	follow, err := f.hear(code, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, endpoints)
	if err != nil {
		return false, err
	}
	if !follow {
		return false, tryAgain("fetch snapshot %s at %d: the leader changed", id.FileName(), w.Size())
	}
	got := snapshot.ID{Offset: p.SnapshotID.EndOffset, Epoch: protocol.ControllerEpoch(p.SnapshotID.Epoch)}
	if got != id || p.Position != w.Size() || len(p.Bytes) == 0 || p.Position+int64(len(p.Bytes)) > p.Size {
		f.lost()
		return false, tryAgain("fetch snapshot %s at %d: the answer has %d of %d bytes at %d of %s",
			id.FileName(), w.Size(), len(p.Bytes), p.Size, p.Position, got.FileName())
	}
	if _, err := w.Write(p.Bytes); err != nil {
		return false, err
	}
	return w.Size() == p.Size, nil
}

func topError(resp *kmsg.FetchSnapshotResponse) error {
	if resp == nil {
		return protocol.ErrUnknownServerError
	}
	return protocol.Error(resp.ErrorCode)
}

func (f *Follower) pieceRequest(epoch protocol.ControllerEpoch, id snapshot.ID, position int64) *kmsg.FetchSnapshotRequest {
	req := kmsg.NewPtrFetchSnapshotRequest()
	req.ClusterID, req.ReplicaID, req.MaxBytes = &f.cfg.ClusterID, int32(f.cfg.NodeID), maxFetchBytes
	topic := kmsg.NewFetchSnapshotRequestTopic()
	topic.Topic = protocol.MetadataTopic
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch = int32(epoch)
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.Offset, int32(id.Epoch)
	p.Position = position
	p.ReplicaDirectoryID = f.cfg.DirectoryID
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return req
}
