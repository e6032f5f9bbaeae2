package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
	"github.com/klamm/klamm/telemetry"
)

// node is what the halves of a node share.
type node struct {
	cfg     *config.Config
	log     zerolog.Logger
	asked   zerolog.Logger // log for what clients can cause as often as they like
	dirs    []*storage.Dir // the metadata log's first
	cluster string
	memory  *server.Memory // of requests, over all listeners
	// connections are those of the broker's listeners, and of the controller's,
	// which have the same limits, each for itself.
	connections map[protocol.ListenerKind]*server.Connections
	gauges      gauges
}

// Run is a node's life; version is the build's. It returns nil after a stop that
// ctx asked for.
func Run(ctx context.Context, cfg *config.Config, version string, log zerolog.Logger) (err error) {
	n := &node{cfg: cfg, log: log, asked: telemetry.LimitRepeats(log), memory: requestMemory(cfg.Network)}
	limits := n.connectionLimits(ctx, cfg.Dynamic.Connections)
	n.connections = map[protocol.ListenerKind]*server.Connections{
		protocol.BrokerListener:     server.NewConnections(limits),
		protocol.ControllerListener: server.NewConnections(limits),
	}
	if err := n.openDirs(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.closeDirs()) }()
	watched, err := n.serveMetrics(ctx, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watched.stop()) }()

	meta, err := n.openMetadata()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meta.close()) }()
	kept := newStage(ctx)
	defer func() { err = errors.Join(err, kept.stop()) }()
	kept.run("ballast", meta.ballast.Run)

	return n.runRoles(ctx, meta)
}

// requestMemory is the memory that requests may take on the way in; by default a
// listener has its own bound.
func requestMemory(cfg config.Network) *server.Memory {
	if cfg.MaxQueuedBytes > 0 {
		return server.NewMemory(cfg.MaxQueuedBytes)
	}
	return nil
}

// metadata is the node's copy of the metadata log and what comes of it.
type metadata struct {
	dir      string
	log      *storage.Log
	replayer *replay.Replayer
	ballast  *storage.Ballast
}

func (n *node) openMetadata() (*metadata, error) {
	dir := filepath.Join(n.cfg.Dirs.Metadata, protocol.MetadataTopic+"-0")
	ballast := storage.NewBallast(vfs.OS(), dir, n.log)
	if err := ballast.Release(); err != nil {
		return nil, err
	}
	logConfig := storage.DefaultLogConfig()
	logConfig.SegmentBytes = n.cfg.Metadata.SegmentBytes
	logConfig.SegmentMs = n.cfg.Metadata.SegmentAge.Milliseconds()
	// What lies below the snapshots goes by these (replay.RunSnapshots).
	logConfig.RetentionBytes = n.cfg.Metadata.RetentionBytes
	logConfig.RetentionMs = -1
	if n.cfg.Metadata.RetentionAge >= 0 {
		logConfig.RetentionMs = n.cfg.Metadata.RetentionAge.Milliseconds()
	}
	// A clean-shutdown mark speaks for the partitions' logs: this one is closed
	// after they are. What a snapshot holds was synced before it counted.
	checkpoints, err := snapshot.Checkpoints(vfs.OS(), dir)
	if err != nil {
		return nil, fmt.Errorf("find snapshots: %w", err)
	}
	var synced int64
	for _, id := range checkpoints {
		synced = max(synced, id.Offset)
	}
	log, err := storage.OpenLog(vfs.OS(), dir, storage.LogOptions{
		Config:        logConfig,
		TopicID:       protocol.MetadataTopicID,
		RecoveryPoint: synced,
		Dir:           n.dirs[0],
		Log:           n.log,
	})
	if err != nil {
		return nil, fmt.Errorf("open the metadata log: %w", err)
	}
	replayer, err := replay.New(replay.Config{Log: log, FS: vfs.OS(), Dir: dir, Observer: !n.cfg.Node.IsController}, n.log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	n.gauges.replayer.Store(replayer)
	return &metadata{dir: dir, log: log, replayer: replayer, ballast: ballast}, nil
}

func (m *metadata) close() error {
	if err := m.log.Close(); err != nil {
		return fmt.Errorf("close the metadata log: %w", err)
	}
	return nil
}

// serverConfig is what all listeners of the node have in common.
func (n *node) serverConfig(listener config.Listener, kind protocol.ListenerKind) server.Config {
	return server.Config{
		Listener:      listener.Name,
		Kind:          kind,
		MaxFrame:      n.cfg.Network.MaxRequestBytes,
		Connections:   n.connections[kind],
		IdleTimeout:   n.cfg.Network.IdleTimeout,
		SendBuffer:    n.cfg.Network.SendBuffer,
		ReceiveBuffer: n.cfg.Network.ReceiveBuffer,
		Memory:        n.memory,
	}
}

// listen binds a listener; the error names it.
func (n *node) listen(ctx context.Context, listener config.Listener) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(listener.Host, strconv.Itoa(listener.Port)))
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", listener, err)
	}
	if backlog := n.cfg.Network.Backlog; backlog > 0 {
		if err := server.SetBacklog(ln, backlog); err != nil {
			return nil, errors.Join(fmt.Errorf("backlog of listener %s: %w", listener, err), ln.Close())
		}
	}
	return ln, nil
}
