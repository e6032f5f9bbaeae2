package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Controller sends a request to the active controller and returns its answer,
// trying again until ctx ends. *controllerclient.Client is one.
type Controller interface {
	Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// Subscriber gets every image of the metadata in order, each with what changed.
type Subscriber interface {
	Publish(delta *metadata.Delta, img *metadata.Image)
}

// Config is what a Broker is made from.
type Config struct {
	NodeID    protocol.NodeID
	ClusterID string
	// Rack is where the broker stands (broker.rack), nil for nowhere.
	Rack *string
	// Endpoints are the advertised listeners.
	Endpoints []record.Endpoint
	// LogDirs are the ids of the log directories that work.
	LogDirs []protocol.UUID
	// PreviousEpoch is the broker epoch in the clean-shutdown marks, −1 where
	// the last stop was unclean or there was none. With −1 the controller takes
	// the broker out of every ISR before it lets it in.
	PreviousEpoch protocol.BrokerEpoch

	// HeartbeatInterval is how often a heartbeat is due
	// (broker.heartbeat.interval.ms, default 2 s). Some are sent sooner.
	HeartbeatInterval time.Duration
	// SessionTimeout is after how long without heartbeats the controller fences
	// the broker (broker.session.timeout.ms, default 9 s). A heartbeat that has
	// no answer by then is given up.
	SessionTimeout time.Duration
	// RegistrationTimeout is how long the first registration may take before the
	// start is given up (initial.broker.registration.timeout.ms, default 60 s).
	RegistrationTimeout time.Duration
	// ControlledShutdown asks the controller to move leaderships away before the
	// broker stops (controlled.shutdown.enable).
	ControlledShutdown bool
	// ShutdownTimeout bounds that wait as long as the controller answers
	// (Kafka: 5 minutes; default 30 s, since who stops a broker seldom waits longer).
	ShutdownTimeout time.Duration
	// ShutdownSilence bounds it where no controller answers at all (default 5 s).
	// The broker then stops without its leaderships having moved: clients notice,
	// no record is lost.
	ShutdownSilence time.Duration
	// Lost is closed when the node can not go on, because the metadata log below
	// the broker has failed: nothing is waited for then, since each second in which
	// this node looks alive is one in which nobody takes over. Nil: never.
	Lost <-chan struct{}

	// Controller is for registration and heartbeats alone: see controllerclient.
	Controller Controller
	// Moved returns a channel that is closed when the controller changes: a heartbeat
	// is due then, since the connection that carries it is how the next one finds that
	// this process ended. Nil: it is not known.
	Moved func() <-chan struct{}
	// Requests is for what others send to the controller: producer ids here,
	// forwarded requests in broker/api.
	Requests Controller
	// Subscribe adds a subscriber to the metadata. It first gets all there is as
	// one delta.
	Subscribe func(Subscriber)
	// Load opens the logs on disk, given the image as of this registration. It
	// may take minutes; heartbeats go on.
	Load func(ctx context.Context, img *metadata.Image) error
	// Replicas act on the metadata once Load is done.
	Replicas Replicas
	// Background is what runs from then on until the controlled shutdown is
	// over: the replica manager's and the storage's ticks. The first to return
	// an error stops the broker.
	Background []func(ctx context.Context) error
}

func (c *Config) setDefaults() {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&c.HeartbeatInterval, 2*time.Second)
	def(&c.SessionTimeout, 9*time.Second)
	def(&c.RegistrationTimeout, time.Minute)
	def(&c.ShutdownTimeout, 30*time.Second)
	def(&c.ShutdownSilence, 5*time.Second)
}
