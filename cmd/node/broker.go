package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/klamm/klamm/broker"
	brokerapi "github.com/klamm/klamm/broker/api"
	"github.com/klamm/klamm/broker/controllerclient"
	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/broker/replica/fetcher"
	"github.com/klamm/klamm/config"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// brokerHalf is the broker with what it works on.
type brokerHalf struct {
	n          *node
	meta       *metadata
	configs    configs
	store      *storage.Store   // nil until the broker is registered
	replicas   *replica.Manager // likewise
	puller     *fetcher.Pool    // likewise
	heartbeats *controllerclient.Client
	requests   *controllerclient.Client
	autoCreate *brokerapi.AutoCreate
	groups     *coordinator.Coordinator
	throttles  throttles
	broker     *broker.Broker
}

// runBroker lives the broker's life, and its listeners' from the moment that it
// serves until it has been let go.
func (n *node) runBroker(ctx context.Context, below *stage, meta *metadata, c controllers) error {
	h := &brokerHalf{n: n, meta: meta, throttles: newThrottles(n.cfg.Replicas), configs: configs{
		node: n.cfg.Node.ID, static: config.FromMap(n.cfg.Static), listeners: n.cfg.Listeners.Names(),
	}}
	h.heartbeats, h.requests = n.controllerClient(c), n.controllerClient(c)
	defer h.heartbeats.Close()
	defer h.requests.Close()
	moved := func() <-chan struct{} {
		_, changed := c.Leader()
		return changed
	}
	if err := h.build(below, meta, moved); err != nil {
		return err
	}
	n.gauges.broker.Store(h.broker)

	clients := newStage(ctx)
	// A listener that fails stops the broker.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(clients.ctx, cancel)()
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		select {
		case <-h.broker.Serving():
			if err := h.serve(ctx, clients, meta); err != nil {
				clients.cancel(err)
			}
		case <-h.broker.Done():
		}
	}()
	err := h.broker.Run(ctx)
	<-opened
	return errors.Join(err, clients.stop(), h.closeLogs())
}

// controllers is where the active controller is: a quorum that this node belongs
// to, or what it follows.
type controllers interface {
	// Leader is NoNode where it is not known; the channel is closed at its next
	// change.
	Leader() (protocol.NodeID, <-chan struct{})
	Address(protocol.NodeID) (string, bool)
	// Controllers are those that may lead though Leader does not say so.
	Controllers() []protocol.NodeID
}

func (n *node) controllerClient(c controllers) *controllerclient.Client {
	return controllerclient.New(controllerclient.Config{
		Address: c.Address,
		Leader:  c.Leader,
		Known:   c.Controllers,
		Dial:    controllerclient.Dialer(client.Config{ClientID: fmt.Sprintf("broker-%d", n.cfg.Node.ID)}),
	}, n.log)
}

func (h *brokerHalf) build(below *stage, meta *metadata, moved func() <-chan struct{}) error {
	cfg := h.n.cfg
	endpoints, err := advertised(cfg.Listeners.Advertised)
	if err != nil {
		return err
	}
	dirs := h.n.logDirs()
	background := []func(context.Context) error{func(ctx context.Context) error {
		return h.store.Run(ctx, h.replicas.HighWatermarks)
	}}
	h.autoCreate = brokerapi.NewAutoCreate(cfg.Topics.NumPartitions, cfg.Topics.ReplicationFactor, cfg.Broker.RequestTimeout, h.requests, h.n.asked)
	h.internalTopics(h.autoCreate)
	h.groups = h.newGroups()
	background = append(background, h.autoCreate.Run, h.groups.Run, h.watchDirs, func(ctx context.Context) error {
		return h.replicas.Run(ctx)
	}, func(ctx context.Context) error {
		return h.replicas.RunAssignments(ctx)
	})
	b := broker.Config{
		NodeID:              cfg.Node.ID,
		ClusterID:           h.n.cluster,
		Endpoints:           endpoints,
		PreviousEpoch:       previousEpoch(dirs),
		HeartbeatInterval:   cfg.Broker.HeartbeatInterval,
		SessionTimeout:      cfg.Controller.SessionTimeout,
		RegistrationTimeout: cfg.Broker.RegistrationTimeout,
		ControlledShutdown:  cfg.Broker.ControlledShutdown,
		Controller:          h.heartbeats,
		Moved:               moved,
		Requests:            h.requests,
		Subscribe:           func(s broker.Subscriber) { meta.replayer.Subscribe(s) },
		Load:                h.load,
		Replicas:            h,
		Lost:                below.ctx.Done(),
		Background:          background,
	}
	if cfg.Node.Rack != "" {
		b.Rack = &cfg.Node.Rack
	}
	for _, dir := range dirs {
		b.LogDirs = append(b.LogDirs, dir.ID())
	}
	h.broker = broker.New(b, h.n.asked)
	return nil
}

// advertised are the listeners as they are registered; one without a host is
// reached by this machine's name.
func advertised(listeners []config.Listener) ([]record.Endpoint, error) {
	var out []record.Endpoint
	for _, l := range listeners {
		if l.Host == "" {
			name, err := os.Hostname()
			if err != nil {
				return nil, fmt.Errorf("listener %s: advertised.listeners names no host, and this machine's name is unknown: %w", l, err)
			}
			l.Host = name
		}
		out = append(out, record.Endpoint{
			Name: l.Name, Host: l.Host, Port: uint16(l.Port), SecurityProtocol: securityProtocols[l.Protocol],
		})
	}
	return out, nil
}

// securityProtocols are the ids of SecurityProtocol.java.
var securityProtocols = map[string]int16{"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

// checkDirectories refuses several log directories where the cluster's
// metadata.version cannot say which of them a replica is in.
func checkDirectories(img *cluster.Image, n int) error {
	if level := img.Level(); n > 1 && !level.HasDirectories() {
		return fmt.Errorf("multiple log directories (aka JBOD) are not supported in the current MetadataVersion %s; need 3.7-IV2 or higher", level)
	}
	return nil
}

// load opens the logs on disk.
func (h *brokerHalf) load(ctx context.Context, img *cluster.Image) error {
	if err := checkDirectories(img, len(h.n.logDirs())); err != nil {
		return err
	}
	cfg := storage.DefaultStoreConfig()
	s := h.n.cfg.Storage
	cfg.LogConfig = func(topic string) storage.LogConfig { return h.configs.topic(img, topic).Log }
	dynamic := h.configs.dynamic(img)
	h.throttles.set(dynamic)
	cfg.RecoveryThreads = dynamic.RecoveryThreads
	cfg.RecoveryPointInterval = s.CheckpointInterval
	cfg.LogStartInterval = s.StartOffsetInterval
	cfg.HighWatermarkInterval = s.HighWatermarkInterval
	cfg.ExpireInterval = s.ProducerExpirationCheck
	cfg.RetentionInterval = s.RetentionInterval
	store, err := storage.OpenStore(ctx, vfs.OS(), h.n.logDirs(), cfg, h.n.log)
	if err != nil {
		return err
	}
	h.store = store
	h.puller = h.newPuller()
	h.replicas = replica.NewManager(replica.Config{
		Node: h.n.cfg.Node.ID, Store: replica.NewStore(store), TopicConfig: h.configs.topic,
		Puller: h.puller, ISR: h.inSync(),
	}, h.n.log)
	h.n.gauges.half.Store(h)
	return nil
}

// Apply implements broker.Replicas: it is called once the logs are loaded.
func (h *brokerHalf) Apply(delta *cluster.Delta, img *cluster.Image) {
	h.applyConfigs(delta, img)
	h.replicas.Apply(delta, img)
	h.applyGroups(delta, img)
}

// serve opens the client listeners.
func (h *brokerHalf) serve(ctx context.Context, clients *stage, meta *metadata) error {
	cfg := h.n.cfg
	fetch := brokerapi.FetchConfig{
		MaxBytes: cfg.Broker.FetchMaxBytes, SessionSlots: cfg.Broker.FetchSessions, RackAware: cfg.Broker.RackAware,
		Throttle: h.throttles.leader,
	}
	apiConfig := broker.APIConfig{
		KRaftVersion: meta.kraftVersion,
		Static:       h.configs.static,
		Forward:      h.requests,
		AutoCreate:   h.autoCreate,
		Data: append(brokerapi.NewLogDirs(h.broker, h.replicas, h.store, h.n.asked).APIs(),
			brokerapi.NewProduce(h.broker, h.replicas, h.n.asked).API(),
			brokerapi.NewFetch(fetch, h.broker, h.replicas, h.n.asked).API(),
			brokerapi.NewListOffsets(h.broker, h.replicas, h.n.asked).API(),
			brokerapi.NewDeleteRecords(h.broker, h.replicas, h.n.asked).API(),
			brokerapi.NewOffsetForLeaderEpoch(h.broker, h.replicas, h.n.asked).API(),
			brokerapi.NewDescribeProducers(h.broker, h.replicas).API(),
		),
	}
	h.serveGroups(&apiConfig)
	apis := h.broker.APIs(apiConfig)
	for _, listener := range cfg.Listeners.Broker {
		srv, err := server.New(h.n.serverConfig(listener, protocol.BrokerListener), apis, h.n.asked)
		if err != nil {
			return fmt.Errorf("listener %s: %w", listener, err)
		}
		ln, err := h.n.listen(ctx, listener)
		if err != nil {
			return err
		}
		clients.run("listener "+listener.Name, func(ctx context.Context) error { return srv.Serve(ctx, ln) })
	}
	return nil
}

// closeLogs closes the logs with the mark of a clean stop.
func (h *brokerHalf) closeLogs() error {
	if h.store == nil {
		return nil
	}
	h.puller.Close()
	if err := h.store.Close(h.broker.Epoch(), h.replicas.HighWatermarks()); err != nil {
		return fmt.Errorf("close logs: %w", err)
	}
	return nil
}
