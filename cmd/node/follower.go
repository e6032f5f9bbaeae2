package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klamm/klamm/metadata/follower"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

// startFollower starts in the stage what fills the metadata log of a node that
// has no vote.
func (n *node) startFollower(below *stage, meta *metadata) (*follower.Follower, error) {
	if err := snapshot.RemoveUnfinished(vfs.OS(), meta.dir); err != nil {
		return nil, err
	}
	epoch, err := raftlog.ReadObserverEpoch(meta.dir)
	if err != nil {
		// The log knows the epoch of its last record, which is all that is needed.
		n.log.Warn().Err(err).Msg("quorum-state can not be read and is written anew")
		epoch = 0
	}
	voters := make(map[protocol.NodeID]string)
	for _, v := range n.cfg.Quorum.Voters {
		voters[v.ID] = v.Address()
	}
	ids := slices.Sorted(maps.Keys(voters))
	cfg := n.followerConfig(meta)
	cfg.Voters, cfg.Epoch = voters, epoch
	cfg.Learned = func(leader protocol.NodeID, epoch protocol.ControllerEpoch) error {
		return raftlog.WriteObserverState(meta.dir, leader, epoch, ids)
	}
	f := follower.New(cfg, n.log)
	below.run("metadata follower", f.Run)
	below.run("snapshots", func(ctx context.Context) error {
		return meta.replayer.RunSnapshots(ctx, n.snapshotPace(meta.replayer.WriteSnapshot))
	})
	return f, nil
}

func (n *node) followerConfig(meta *metadata) follower.Config {
	dial := client.Config{ClientID: fmt.Sprintf("raft-client-%d", n.cfg.Node.ID)}
	return follower.Config{
		NodeID:      n.cfg.Node.ID,
		DirectoryID: n.dirs[0].ID(),
		ClusterID:   n.cluster,
		Bootstrap:   n.cfg.Quorum.Bootstrap,
		Dial: func(ctx context.Context, addr string) (follower.Conn, error) {
			conn, err := client.Dial(ctx, addr, dial)
			if err != nil {
				return nil, err // a nil *client.Conn must not become a Conn
			}
			return conn, nil
		},
		Replica:        meta.replayer,
		FS:             vfs.OS(),
		Dir:            meta.dir,
		RequestTimeout: n.cfg.Quorum.RequestTimeout,
	}
}

func (n *node) snapshotPace(take func(context.Context) error) replay.SnapshotPace {
	return replay.SnapshotPace{
		Take:  take,
		Bytes: n.cfg.Metadata.SnapshotBytes,
		Age:   n.cfg.Metadata.SnapshotInterval,
		Trim:  time.Minute,
	}
}

// endpoint is where a voter listens.
func (q *quorum) endpoint(id protocol.NodeID) (string, uint16, bool) {
	addr, ok := q.Address(id)
	if !ok {
		return "", 0, false
	}
	host, port, err := protocol.SplitAddress(addr)
	return host, port, err == nil
}
