package node

import (
	"context"
	"fmt"
	"time"

	"github.com/klamm/klamm/api"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/controller"
	controllerapi "github.com/klamm/klamm/controller/api"
	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/follower"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/probe"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage/vfs"
)

// quorum is the controller half as the broker half sees it.
type quorum struct {
	engine     *raftlog.Engine
	controller *controller.Controller
	voters     *voterSet
	own        raftlog.Voter      // id and directory
	told       *follower.Follower // brings the log while Raft does not
	fed        time.Time          // when Raft had a leader last; the follower's goroutine's
}

// Leader is the active controller, for controllerclient: known from Raft, or as an
// observer knows it.
func (q *quorum) Leader() (protocol.NodeID, <-chan struct{}) {
	l, changed := q.engine.Leadership()
	return l.Leader, changed
}

// Address is where a voter listens.
func (q *quorum) Address(id protocol.NodeID) (string, bool) {
	for _, v := range q.voters.all() {
		if v.ID == id {
			return v.Endpoint, true
		}
	}
	return q.told.Address(id)
}

// Controllers are none besides the leader, of whom Raft tells at once.
func (q *quorum) Controllers() []protocol.NodeID { return nil }

func (q *quorum) close() error {
	if err := q.engine.Close(); err != nil {
		return fmt.Errorf("close raft: %w", err)
	}
	return nil
}

// startController starts Raft, the controller's loop and its listener in the
// stage.
func (n *node) startController(ctx context.Context, below *stage, meta *metadata) (*quorum, error) {
	snapshots, err := snapshot.OpenStore(vfs.OS(), meta.dir, n.log)
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	header, bootstrap, _, err := snapshot.ReadBootstrap(vfs.OS(), meta.dir)
	if err != nil {
		return nil, err
	}
	voters, err := n.voters(meta, header.KRaft)
	if err != nil {
		return nil, err
	}
	registration, err := n.controllerRegistration()
	if err != nil {
		return nil, err
	}
	engine, err := n.openRaft(meta, voters, snapshots)
	if err != nil {
		return nil, fmt.Errorf("open raft: %w", err)
	}
	q := &quorum{
		engine: engine, voters: voters, fed: time.Now(),
		own: raftlog.Voter{ID: n.cfg.Node.ID, DirectoryID: n.dirs[0].ID()},
	}
	cfg := n.controllerConfig(voters)
	cfg.Bootstrap, cfg.Registration = bootstrap, registration
	cfg.Voters = &controller.Voters{
		Quorum: meta.replayer.Quorum, Members: engine, Listener: n.cfg.Listeners.Controller[0].Name, Supports: n.kraftVersions,
	}
	if header.KRaft.Version == 0 {
		cfg.Voters.Static = voters.initial
	}
	q.controller = controller.New(cfg, engine, meta.replayer, n.log)
	n.gauges.quorum.Store(q)
	meta.replayer.Subscribe(q.controller)

	n.startObserver(below, meta, q)
	below.run("raft", engine.Run)
	below.run("controller", q.controller.Run)
	below.run("registration", (&registrar{n: n, q: q, req: registration, meta: meta, news: make(chan struct{}, 1)}).run)
	below.run("own vote", n.newOwnVote(q, meta, registration).run)
	below.run("snapshots", func(ctx context.Context) error {
		return meta.replayer.RunSnapshots(ctx, n.snapshotPace(func(ctx context.Context) error {
			if member, known := engine.IsMember(); known && !member {
				return meta.replayer.WriteSnapshot(ctx)
			}
			return engine.TakeSnapshot(ctx)
		}))
	})
	for _, listener := range n.cfg.Listeners.Controller {
		if err := n.serveController(ctx, below, listener, q, meta); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (n *node) openRaft(meta *metadata, voters *voterSet, snapshots raftlog.SnapshotStore) (*raftlog.Engine, error) {
	return raftlog.Open(raftlog.Config{
		Dir:             meta.dir,
		NodeID:          n.cfg.Node.ID,
		DirectoryID:     n.dirs[0].ID(),
		ClusterID:       n.cluster,
		Voters:          voters.initial,
		LogVoters:       voters.logVoters,
		ElectionTimeout: n.cfg.Quorum.ElectionTimeout,
		FetchTimeout:    n.cfg.Quorum.FetchTimeout,
		Inherited:       meta.replayer.Inherit,
		StateMachine:    meta.replayer,
		Snapshots:       snapshots,
		FirstEntry: func(epoch protocol.ControllerEpoch) []byte {
			return controller.FirstEntry(n.cfg.Node.ID, voters.ids(), voters.first)(epoch)
		},
		Logger: n.asked,

		FastFailureDetection: n.cfg.Controller.FastFailureDetection,
	})
}

func (n *node) controllerConfig(voters *voterSet) controller.Config {
	var dial probe.Dial
	if n.cfg.Controller.FastFailureDetection {
		dial = probe.TCP
	}
	return controller.Config{
		Env: decide.Env{
			ClusterID:         n.cluster,
			NodeID:            n.cfg.Node.ID,
			KRaftVersion:      voters.version(),
			Static:            config.FromMap(n.cfg.Static),
			NumPartitions:     n.cfg.Topics.NumPartitions,
			ReplicationFactor: n.cfg.Topics.ReplicationFactor,
			DeleteTopics:      n.cfg.Topics.Delete,
			Authorizer:        n.cfg.Static["authorizer.class.name"] != "",
		},
		SessionTimeout:    n.cfg.Controller.SessionTimeout,
		MaxIdle:           n.cfg.Metadata.IdleInterval,
		RebalanceInterval: n.cfg.Controller.RebalanceInterval,
		UncleanInterval:   n.cfg.Controller.UncleanInterval,
		Probe:             dial,
		InterBroker:       n.cfg.Listeners.InterBroker,
	}
}

func (n *node) serveController(ctx context.Context, below *stage, listener config.Listener, q *quorum, meta *metadata) error {
	env := api.Env{
		Kind:       protocol.ControllerListener,
		ClusterID:  n.cluster,
		NodeID:     n.cfg.Node.ID,
		Authorizer: n.cfg.Static["authorizer.class.name"] != "",
		Image:      meta.replayer.Image,
		Controller: func() protocol.NodeID {
			leader, _ := q.Leader()
			return leader
		},
		KRaftVersion: meta.kraftVersion,
		Static:       config.FromMap(n.cfg.Static),
		Loggers:      api.Loggers{NodeID: n.cfg.Node.ID, Log: n.asked},
	}
	log := &controllerapi.MetadataLog{
		ClusterID: n.cluster, Log: meta.log, FS: vfs.OS(), Dir: meta.dir,
		Leadership: q.engine.Leadership, Grown: meta.replayer.Grown, Endpoint: q.endpoint,
	}
	apis := append(controllerapi.APIs(controllerapi.Config{Controller: q.controller, Metadata: log, Listener: n.cfg.Listeners.Controller[0].Name, Loggers: env.Loggers, Log: n.asked}),
		api.ApiVersions(env), api.DescribeCluster(env), api.DescribeACLs(env), api.DescribeConfigs(env))
	cfg := n.serverConfig(listener, protocol.ControllerListener)
	cfg.Preface = []byte(raftlog.Preface)
	cfg.Handover = q.engine.Accept
	srv, err := server.New(cfg, apis, n.asked)
	if err != nil {
		return fmt.Errorf("listener %s: %w", listener, err)
	}
	ln, err := n.listen(ctx, listener)
	if err != nil {
		return err
	}
	below.run("listener "+listener.Name, func(ctx context.Context) error { return srv.Serve(ctx, ln) })
	return nil
}
