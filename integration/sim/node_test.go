package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/api"
	"github.com/klamm/klamm/broker"
	brokerapi "github.com/klamm/klamm/broker/api"
	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/broker/replica/fetcher"
	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/controller"
	controllerapi "github.com/klamm/klamm/controller/api"
	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/follower"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

const clusterID = "sim"

// How fast things are found out. Shorter than Kafka's defaults, so that a run sees
// more of it.
const (
	heartbeatInterval = 500 * time.Millisecond
	sessionTimeout    = 3 * time.Second
	maxLag            = 3 * time.Second
	requestTimeout    = 4 * time.Second
	fetchWait         = 500 * time.Millisecond
)

// node is one machine: a disk, and while it runs a process on it, which is put
// together as cmd/node does.
type node struct {
	w                  *world
	id                 protocol.NodeID
	controller, broker bool

	fs    *vfs.Mem
	raft  *memlog.Disk
	known protocol.ControllerEpoch // quorum-state of a node without a vote
	lives int

	mu        sync.Mutex
	life      *life // nil while it is down
	lostPower bool  // in any of its lives
	unclean   bool  // its last life was registered and did not stop in order

	ends map[protocol.TopicPartition]end // of the logs when the last life ended
}

// end is up to where a log has to be there again.
type end struct {
	topic  protocol.UUID
	offset int64
}

// life is one process.
type life struct {
	n      *node
	number int
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	lost   chan struct{} // closed when the process is killed

	dir      *storage.Dir
	log      *storage.Log
	replayer *replay.Replayer
	member   *memlog.Member // of a controller
	follower *follower.Follower

	broker   *broker.Broker
	stop     context.CancelFunc // begins a controlled shutdown
	stopped  chan struct{}      // closed when it is over
	requests []*controllerclient.Client
	agreed   map[*replica.Partition]int64 // how far their records were compared; the driver's

	mu    sync.Mutex
	store *storage.Store // once it is loaded
	repl  *replica.Manager
	pull  *fetcher.Pool

	apis map[protocol.ListenerKind]map[int16]server.API
}

func newNode(w *world, id protocol.NodeID) *node {
	return &node{w: w, id: id, fs: vfs.NewMem(), raft: &memlog.Disk{}}
}

func (n *node) running() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (n *node) dead() bool { return n.running() == nil }

// listens returns the number of the life that listens, 0 where none does.
func (n *node) listens(kind protocol.ListenerKind) int {
	l := n.running()
	switch {
	case l == nil, kind == protocol.ControllerListener && !n.controller, kind == protocol.BrokerListener && !n.broker:
		return 0
	case kind == protocol.BrokerListener:
		select {
		case <-l.broker.Serving():
		default:
			return 0
		}
		select {
		case <-l.broker.Done():
			return 0
		default:
		}
	}
	return l.number
}

const root = "/data"

var metadataDir = filepath.Join(root, protocol.MetadataTopic+"-0")

// format is what the format tool does.
func (n *node) format() error {
	if err := n.fs.Mkdir(root); err != nil {
		return err
	}
	if err := n.fs.Mkdir(metadataDir); err != nil {
		return err
	}
	if err := snapshot.WriteBootstrap(n.fs, metadataDir, 0, snapshot.Quorum{}, decide.DefaultFeatures()); err != nil {
		return err
	}
	id := protocol.UUID{0: 0xd1, 1: byte(n.id), 15: 1}
	meta := storage.MetaProperties{ClusterID: clusterID, NodeID: n.id, DirectoryID: id}
	if err := storage.Format(n.fs, root, meta, time.Now()); err != nil {
		return err
	}
	return n.fs.SyncDir("/")
}

// start begins a life.
func (n *node) start() {
	if !n.dead() {
		return
	}
	if n.lives == 0 {
		if err := n.format(); err != nil {
			n.w.failf("format node %d: %v", n.id, err)
			return
		}
	}
	n.lives++
	n.w.tracef("node %d starts, life %d", n.id, n.lives)
	l := &life{
		n: n, number: n.lives, lost: make(chan struct{}), stopped: make(chan struct{}),
		agreed: map[*replica.Partition]int64{},
		apis:   map[protocol.ListenerKind]map[int16]server.API{protocol.ControllerListener: {}, protocol.BrokerListener: {}},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if err := l.open(); err != nil {
		n.w.failf("node %d does not start: %v", n.id, err)
		return
	}
	n.mu.Lock()
	n.life = l
	n.mu.Unlock()
	l.begin()
}

func (l *life) open() (err error) {
	n := l.n
	if l.dir, err = storage.OpenDir(n.fs, root, time.Now()); err != nil {
		return err
	}
	checkpoints, err := snapshot.Checkpoints(n.fs, metadataDir)
	if err != nil {
		return err
	}
	var synced int64
	for _, id := range checkpoints {
		synced = max(synced, id.Offset)
	}
	logConfig := storage.DefaultLogConfig()
	logConfig.SegmentBytes = 16 << 10
	logConfig.RetentionMs, logConfig.RetentionBytes = -1, 32<<10
	l.log, err = storage.OpenLog(n.fs, metadataDir, storage.LogOptions{
		Config: logConfig, TopicID: protocol.MetadataTopicID, RecoveryPoint: synced, Dir: l.dir, Log: n.w.log,
	})
	if err != nil {
		return err
	}
	l.replayer, err = replay.New(replay.Config{Log: l.log, FS: n.fs, Dir: metadataDir, Observer: !n.controller}, n.w.log)
	if err != nil {
		return err
	}
	l.replayer.Subscribe(&watcher{w: n.w, node: n.id})
	if n.controller {
		err = l.openController()
	} else {
		err = l.openFollower()
	}
	if err == nil && n.broker {
		l.openBroker()
	}
	return err
}

// run has a goroutine of this life; an error that nobody asked for is a failure.
func (l *life) run(name string, fn func(context.Context) error) {
	l.group.Go(func() {
		err := fn(l.ctx)
		if l.ctx.Err() == nil {
			l.n.w.failf("node %d: %s ended: %v", l.n.id, name, err)
		}
	})
}

// rand is chance for the product, its own for each life.
func (l *life) rand() *rand.Rand {
	return rand.New(rand.NewPCG(l.n.w.seed, uint64(l.n.id)<<32|uint64(l.number)))
}

func (l *life) openController() error {
	n := l.n
	snapshots, err := snapshot.OpenStore(n.fs, metadataDir, n.w.log)
	if err != nil {
		return err
	}
	_, bootstrap, _, err := snapshot.ReadBootstrap(n.fs, metadataDir)
	if err != nil {
		return err
	}
	var ids []protocol.NodeID
	for _, c := range n.w.controllers() {
		ids = append(ids, c.id)
	}
	l.member = memlog.NewMember(memlog.Config{
		NodeID: n.id, StateMachine: &machine{Replayer: l.replayer, n: n}, Snapshots: snapshots,
		FirstEntry: controller.FirstEntry(n.id, ids, nil), Disk: n.raft,
	}, len(ids))
	rng := l.rand()
	var newID sync.Mutex
	cfg := controller.Config{
		Env: decide.Env{
			ClusterID: clusterID, NodeID: n.id, Static: static(), NumPartitions: 1, ReplicationFactor: 3, DeleteTopics: true,
			NewID: func() (id protocol.UUID) {
				newID.Lock()
				defer newID.Unlock()
				for i := range id {
					id[i] = byte(rng.Uint32())
				}
				return id
			},
			Rand: l.rand(),
		},
		SessionTimeout: sessionTimeout, MaxIdle: 2 * time.Second, RebalanceInterval: 20 * time.Second,
		InterBroker: "PLAINTEXT", Bootstrap: bootstrap,
	}
	if n.w.mix.evidence {
		cfg.Probe = func(ctx context.Context, addr string) error {
			// Several are dialled at one instant. They shall not be found gone at one.
			to, _, err := n.w.net.find(addr)
			if err != nil {
				return err
			}
			time.Sleep(time.Duration(to.id) * 10 * time.Microsecond)
			c, err := n.w.net.dial(ctx, n, addr)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
	}
	log := proposals{l.member, n.w}
	ctl := controller.New(cfg, log, l.replayer, n.w.log)
	l.replayer.Subscribe(ctl)
	served := &controllerapi.MetadataLog{
		ClusterID: clusterID, Log: l.log, FS: n.fs, Dir: metadataDir,
		Leadership: l.member.Leadership, Grown: l.replayer.Grown, Endpoint: n.w.controllerEndpoint,
	}
	l.serveAll(protocol.ControllerListener, controllerapi.APIs(controllerapi.Config{
		Controller: ctl, Metadata: served, Loggers: api.Loggers{NodeID: n.id, Log: n.w.log}, Log: n.w.log,
	}))
	l.run("raft", l.member.Run)
	l.run("controller", ctl.Run)
	return nil
}

// proposals wakes the driver when something is proposed.
type proposals struct {
	*memlog.Member
	w *world
}

func (p proposals) Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (int64, error) {
	p.w.ring()
	return p.Member.Propose(ctx, epoch, data)
}

func (w *world) controllerEndpoint(id protocol.NodeID) (string, uint16, bool) {
	if id < 1 || int(id) > len(w.nodes) || !w.node(id).controller {
		return "", 0, false
	}
	host, port := address(id, protocol.ControllerListener)
	return host, port, true
}

func (w *world) controllerAddress(id protocol.NodeID) (string, bool) {
	if _, _, ok := w.controllerEndpoint(id); !ok {
		return "", false
	}
	return hostPort(id, protocol.ControllerListener), true
}

func (l *life) openFollower() error {
	n := l.n
	if err := snapshot.RemoveUnfinished(n.fs, metadataDir); err != nil {
		return err
	}
	voters := make(map[protocol.NodeID]string)
	for _, c := range n.w.controllers() {
		voters[c.id] = hostPort(c.id, protocol.ControllerListener)
	}
	l.follower = follower.New(follower.Config{
		NodeID: n.id, DirectoryID: l.dir.ID(), ClusterID: clusterID, Voters: voters,
		Dial: func(ctx context.Context, addr string) (follower.Conn, error) {
			c, err := n.w.net.dial(ctx, n, addr)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Replica: l.replayer, FS: n.fs, Dir: metadataDir, Epoch: n.known,
		Learned: func(_ protocol.NodeID, epoch protocol.ControllerEpoch) error {
			n.known = max(n.known, epoch)
			return nil
		},
		MaxWait: fetchWait,
	}, n.w.log)
	l.run("follower", l.follower.Run)
	return nil
}

// leader is the active controller as this node knows it.
func (l *life) leader() (protocol.NodeID, <-chan struct{}) {
	if l.follower != nil {
		return l.follower.Leader()
	}
	cur, changed := l.member.Leadership()
	return cur.Leader, changed
}

func (l *life) client() *controllerclient.Client {
	rng, mu := l.rand(), sync.Mutex{}
	jitter := func(pause time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return pause + time.Duration(rng.Int64N(int64(pause/10)))
	}
	c := controllerclient.New(controllerclient.Config{
		Address: l.n.w.controllerAddress, Leader: l.leader, AttemptTimeout: requestTimeout,
		MaxConns: 100, // nobody waits for another: who goes first is not the seed's to say
		Jitter:   jitter,
		Dial: func(ctx context.Context, addr string) (controllerclient.Conn, error) {
			c, err := l.n.w.net.dial(ctx, l.n, addr)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}, l.n.w.log)
	l.requests = append(l.requests, c)
	return c
}

func static() config.Lookup { return config.FromMap(map[string]string{}) }

// topicConfig is what cmd/node makes of a topic's configs, as far as they matter here.
func topicConfig(id protocol.NodeID) func(img *metadata.Image, topic string) replica.TopicConfig {
	return func(img *metadata.Image, topic string) replica.TopicConfig {
		layers := img.Layers(id, static())
		layers.Topic = img.ConfigsOf(metadata.Resource{Type: metadata.ResourceTopic, Name: topic})
		v := config.ResolveTopic(layers)
		log := storage.DefaultLogConfig()
		log.RetentionMs, log.RetentionBytes, log.SegmentBytes = -1, -1, 4<<10
		log.FlushMessages = v.FlushMessages
		return replica.TopicConfig{
			Log: log, MinInSyncReplicas: int(v.MinInsyncReplicas), MaxMessageBytes: int(v.MaxMessageBytes),
			MaxDecompressedBytes: int(v.MaxDecompressedMessageBytes), AppendTime: v.LogAppendTime,
			TimestampBeforeMs: v.TimestampBeforeMaxMs, TimestampAfterMs: v.TimestampAfterMaxMs, Deletes: v.Delete,
		}
	}
}

func (l *life) openBroker() {
	n := l.n
	host, port := address(n.id, protocol.BrokerListener)
	previous, clean := l.dir.CleanShutdown()
	if !clean {
		previous = -1
	}
	heartbeats, requests := l.client(), l.client()
	l.broker = broker.New(broker.Config{
		NodeID: n.id, ClusterID: clusterID, PreviousEpoch: previous,
		Endpoints:         []record.Endpoint{{Name: "PLAINTEXT", Host: host, Port: port}},
		LogDirs:           []protocol.UUID{l.dir.ID()},
		HeartbeatInterval: heartbeatInterval, SessionTimeout: sessionTimeout, RegistrationTimeout: time.Hour,
		ControlledShutdown: true, Lost: l.lost,
		Controller: heartbeats, Requests: requests,
		Subscribe: func(s broker.Subscriber) { l.replayer.Subscribe(s) },
		Load: func(ctx context.Context, img *metadata.Image) error {
			return l.load(ctx, img, requests)
		},
		Replicas: applied{l},
		Background: []func(context.Context) error{
			func(ctx context.Context) error { return l.store.Run(ctx, l.highWatermarks) },
			func(ctx context.Context) error { return l.repl.Run(ctx) },
		},
	}, n.w.log)
}

func (l *life) serveAll(kind protocol.ListenerKind, apis []server.API) {
	for _, a := range apis {
		l.apis[kind][a.Key] = a
	}
}

func (l *life) highWatermarks() iter.Seq2[protocol.TopicPartition, int64] {
	return l.repl.HighWatermarks()
}

// applied passes the metadata on to the replicas.
type applied struct{ l *life }

func (a applied) Apply(delta *metadata.Delta, img *metadata.Image) { a.l.repl.Apply(delta, img) }

func (l *life) load(ctx context.Context, img *metadata.Image, requests *controllerclient.Client) error {
	n := l.n
	cfg := storage.DefaultStoreConfig()
	cfg.LogConfig = func(topic string) storage.LogConfig { return topicConfig(n.id)(img, topic).Log }
	cfg.RecoveryThreads = 1
	cfg.HighWatermarkInterval = 5 * time.Second
	store, err := storage.OpenStore(ctx, n.fs, []*storage.Dir{l.dir}, cfg, n.w.log)
	if err != nil {
		return err
	}
	l.recovered(store)
	pull := fetcher.New(fetcher.Config{
		Node: n.id, Epoch: l.broker.Epoch, MaxWait: fetchWait, Backoff: 200 * time.Millisecond, Timeout: requestTimeout,
		Addr: func(id protocol.NodeID) (string, bool) {
			b, ok := l.replayer.Image().Broker(id)
			if !ok || len(b.Endpoints) == 0 {
				return "", false
			}
			return hostPort(id, protocol.BrokerListener), true
		},
		Dial: func(ctx context.Context, addr string) (fetcher.Conn, error) {
			c, err := n.w.net.dial(ctx, n, addr)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
	}, n.w.log)
	repl := replica.NewManager(replica.Config{
		Node: n.id, Store: replica.NewStore(store), TopicConfig: topicConfig(n.id), Parallel: 1, Puller: pull,
		ISR: replica.ISRConfig{Controller: requests, Epoch: l.broker.Epoch, MaxLag: maxLag},
	}, n.w.log)
	l.mu.Lock()
	l.store, l.repl, l.pull = store, repl, pull
	l.mu.Unlock()
	l.serveAll(protocol.BrokerListener, l.broker.APIs(broker.APIConfig{
		Static: static(), RequestTimeout: requestTimeout, Forward: requests,
		Data: []server.API{
			brokerapi.NewProduce(l.broker, repl, n.w.log).API(),
			brokerapi.NewFetch(brokerapi.FetchConfig{}, l.broker, repl, n.w.log).API(),
			brokerapi.NewListOffsets(l.broker, repl, n.w.log).API(),
		},
	}))
	return nil
}

// begin runs the broker, where the node has one.
func (l *life) begin() {
	if l.broker == nil {
		return
	}
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	l.group.Go(func() {
		err := l.broker.Run(ctx)
		if ctx.Err() == nil {
			l.n.w.failf("node %d: the broker ended: %v", l.n.id, err)
			return
		}
		if l.ctx.Err() == nil {
			err = errors.Join(err, l.closeLogs())
			if err != nil {
				l.n.w.failf("node %d: the broker stopped: %v", l.n.id, err)
			}
		}
		close(l.stopped)
		l.n.w.ring()
	})
}

func (l *life) closeLogs() error {
	if l.store == nil {
		return nil
	}
	l.pull.Close()
	return l.store.Close(l.broker.Epoch(), l.repl.HighWatermarks())
}

// shutDown stops a node in order; it is down once the broker has been let go.
func (n *node) shutDown() {
	l := n.running()
	if l == nil {
		return
	}
	if l.broker == nil {
		n.kill(nil)
		return
	}
	l.stop()
	n.awaitStop(l)
}

func (n *node) awaitStop(l *life) {
	select {
	case <-l.stopped:
		if n.running() == l {
			n.kill(nil)
		}
	default:
		if n.running() == l {
			n.w.after(n.w.between(5*time.Millisecond, 20*time.Millisecond), "", func() { n.awaitStop(l) })
		}
	}
}

// kill ends the process at once. With a power cut what was not synced is lost, as
// rng says.
func (n *node) kill(powerCut *rand.Rand) {
	if powerCut != nil {
		n.end(n.fs.Crash(powerCut), true)
	} else {
		n.end(n.fs.Kill(), false)
	}
}

// cutPower loses everything that was not synced.
func (n *node) cutPower() { n.end(n.fs.Crash(nil), true) }

// end ends the process at once, and leaves a disk.
func (n *node) end(rest *vfs.Mem, lostPower bool) {
	l := n.running()
	if l == nil {
		return
	}
	n.w.tracef("node %d ends", n.id)
	n.remember(l, lostPower)
	n.mu.Lock()
	n.life = nil
	n.lostPower = n.lostPower || lostPower
	n.mu.Unlock()
	disk := n.fs
	n.fs = rest
	disk.SetHook(func(vfs.Op) error { return errors.New("the process is dead") })
	n.w.net.died(n.id)
	close(l.lost)
	l.cancel()
	if l.pull != nil {
		l.pull.Close()
	}
	for _, c := range l.requests {
		c.Close()
	}
	l.group.Wait()
}

// remember takes note of what the next life has to have: all that was written, or with
// a power cut all that was synced (invariant 12).
func (n *node) remember(l *life, lostPower bool) {
	if l.broker == nil {
		return
	}
	select {
	case <-l.stopped:
		n.unclean = false
	default:
		n.unclean = n.unclean || l.broker.Epoch() >= 0
	}
	if l.store == nil {
		return
	}
	n.ends = map[protocol.TopicPartition]end{}
	for tp, log := range l.store.Logs() {
		at := end{log.TopicID(), log.LEO()}
		if lostPower {
			at.offset = log.FlushedTo()
		}
		n.ends[tp] = at
	}
}

// recovered compares what a life has loaded with what it has to have.
func (l *life) recovered(store *storage.Store) {
	for tp, at := range l.n.ends {
		log, ok := store.Get(tp)
		switch {
		case at.offset == 0:
		case !ok || log.TopicID() != at.topic:
			l.n.w.failf("invariant 12: node %d has no log of %s-%d, which reached to %d", l.n.id, tp.Topic, tp.Partition, at.offset)
		case log.LEO() < at.offset:
			l.n.w.failf("invariant 12: at node %d the log of %s-%d ends at %d, and reached to %d", l.n.id, tp.Topic, tp.Partition, log.LEO(), at.offset)
		}
	}
}

// serve handles a request on its connection's goroutine.
func (n *node) serve(m *message) {
	l := n.running()
	a, ok := l.apis[m.conn.kind][m.key]
	if !ok {
		n.w.failf("%s is not served on the listener %s", kmsg.NameForKey(m.key), listenerName(m.conn.kind))
		return
	}
	l.group.Go(func() {
		body := kmsg.RequestForKey(m.key)
		body.SetVersion(m.version)
		if err := body.ReadFrom(slices.Clone(m.body)); err != nil {
			n.w.failf("%s v%d can not be read: %v", kmsg.NameForKey(m.key), m.version, err)
			return
		}
		ctx, cancel := context.WithCancel(m.conn.ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		answer := a.Handle(m.conn.ctx, &server.Request{
			Key: m.key, Version: m.version, ClientID: fmt.Sprintf("node-%d", m.from), Body: body, Conn: m.conn.server, Received: time.Now(),
		})
		for answer.Wait != nil {
			answer = answer.Wait(ctx)
		}
		if answer.None || ctx.Err() != nil {
			return
		}
		out, err := encode(answer, m.version)
		if err != nil {
			n.w.net.send(&message{conn: m.conn, from: n.id, to: m.from, kind: "reset"})
			return
		}
		n.w.check.answered(n, m, body, out)
		n.w.net.send(&message{conn: m.conn, from: n.id, to: m.from, kind: "answer", key: m.key, version: m.version, body: out, call: m.call})
	})
}

var _ raftlog.Log = proposals{}
