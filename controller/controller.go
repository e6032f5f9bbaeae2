package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/probe"
	"github.com/klamm/klamm/raftlog"
)

// Log is the replicated log as the controller uses it: a raftlog.Log.
type Log interface {
	Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (offset int64, err error)
	Leadership() (raftlog.Leadership, <-chan struct{})
	Status() raftlog.Status
}

// Images gives the image that the log has been replayed to: a *replay.Replay.
type Images interface {
	Image() *metadata.Image
}

// Config is what a controller is made from.
type Config struct {
	// Env is what decisions depend on. NewID and Rand may be nil.
	Env decide.Env
	// SessionTimeout is how long a broker may be silent before it is fenced.
	// Shorter finds a dead host sooner, longer forgives a longer pause.
	// 0 = Kafka's 9 s (broker.session.timeout.ms).
	SessionTimeout time.Duration
	// MaxIdle is how long the log may stand still: then a NoOp record is
	// written, so that whoever follows can tell an idle log from a cut one. Each
	// costs an fsync. 0 = never (metadata.max.idle.interval.ms, 500 ms in Kafka).
	MaxIdle time.Duration
	// Bootstrap are the records that the directory was formatted with, from its
	// 0-0 checkpoint. They are written when the log holds no features yet.
	Bootstrap []record.Record
	// RebalanceInterval is how often leaderships are given back to the preferred
	// replicas; 0 = never.
	RebalanceInterval time.Duration
	// UncleanInterval is how often leaders are looked for that may have lost
	// records, for partitions without one whose topics allow it; 0 = never.
	UncleanInterval time.Duration
	// Probe dials brokers, to find out who is gone (evidence.go); nil leaves that
	// to the session timeout.
	Probe probe.Dial
	// InterBroker is the listener on which brokers serve each other, to be probed.
	InterBroker string
	// Registration is what this controller registers itself as when it takes
	// office; nil = it does not. Other controllers send theirs as requests.
	Registration *kmsg.ControllerRegistrationRequest
	// Voters is what it takes to change the voters; nil: they are static for good.
	Voters *Voters
}

// maxQueued bounds the ops that wait for a decision. An op holds its decoded
// request; beyond this many the controller is hours behind, or attacked, and
// asking again later is the better answer. maxQueuedBytes bounds what their
// requests were on the wire; one that is larger is taken by itself.
const (
	maxQueued      = 10_000
	maxQueuedBytes = 64 << 20
)

// Controller decides while it is in office and refuses while it is not.
type Controller struct {
	cfg    Config
	log    Log
	images Images
	logger zerolog.Logger

	detector *detector // nil without a Probe

	fencedBy  struct{ evidence, timeout atomic.Int64 }
	elections elections

	wake chan struct{} // size 1: a queue that is not empty needs no second ring

	// Run's alone: the epoch of the last stay in office, and who led before.
	lastEpoch   protocol.ControllerEpoch
	predecessor protocol.NodeID

	mu     sync.Mutex // guards what follows; nothing is locked under it
	queue  []*op      // first in, first decided
	bytes  int        // of their requests
	inside bool       // in office: the queue takes ops
}

// New returns a controller that is not in office. Run makes it work.
func New(cfg Config, log Log, images Images, logger zerolog.Logger) *Controller {
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 9 * time.Second
	}
	if cfg.Env.NewID == nil {
		cfg.Env.NewID = protocol.NewUUID
	}
	if cfg.Env.Rand == nil {
		cfg.Env.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	c := &Controller{
		cfg: cfg, log: log, images: images,
		logger:      logger.With().Str("component", "controller").Logger(),
		wake:        make(chan struct{}, 1),
		predecessor: protocol.NoNode,
	}
	if cfg.Probe != nil {
		c.detector = newDetector(&c.cfg, images, c.fenceGone, c.logger)
	}
	return c
}

// Publish implements replay.Subscriber.
func (c *Controller) Publish(delta *metadata.Delta, _ *metadata.Image) {
	c.elections.publish(delta)
	if c.detector != nil {
		c.detector.publish(delta)
	}
}

// FencedByEvidence is how many brokers this controller has fenced because their
// process was gone.
func (c *Controller) FencedByEvidence() int64 { return c.fencedBy.evidence.Load() }

// FencedByTimeout is how many it has fenced because they were silent for the
// session's timeout.
func (c *Controller) FencedByTimeout() int64 { return c.fencedBy.timeout.Load() }

// Disconnected says that a connection has ended that carried heartbeats of a
// broker.
func (c *Controller) Disconnected(id protocol.NodeID, epoch protocol.BrokerEpoch) {
	if c.detector != nil {
		c.detector.suspect(time.Now(), life{id, epoch})
	}
}

// Run takes office whenever the log reports that this node leads, until ctx
// ends. It returns when all that it started has ended.
func (c *Controller) Run(ctx context.Context) error {
	if c.detector != nil {
		var detecting sync.WaitGroup
		defer detecting.Wait()
		detecting.Go(func() { c.detector.run(ctx) })
	}
	for ctx.Err() == nil {
		leadership, changed := c.log.Leadership()
		if !leadership.Leading {
			if leadership.Leader != protocol.NoNode {
				c.predecessor = leadership.Leader
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		err := c.lead(ctx, leadership, changed)
		if ctx.Err() != nil {
			break
		}
		c.logger.Warn().Err(err).Int32("controller_epoch", int32(leadership.Epoch)).Msg("left office")
		if now, _ := c.log.Leadership(); now.Leading && now.Epoch == leadership.Epoch {
			// The log did not let go of us: it failed a batch. A pause, so that
			// a log that fails everything is not asked in a circle.
			pause(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// lead is one stay in office. The error says why it ended.
func (c *Controller) lead(ctx context.Context, leadership raftlog.Leadership, changed <-chan struct{}) error {
	o, err := newOffice(ctx, c, leadership)
	if err != nil {
		return err
	}
	c.logger.Info().Int32("controller_epoch", int32(leadership.Epoch)).Int64("offset", o.base.Offset()).Msg("took office")
	c.open(o.activation())
	if c.detector != nil {
		c.detector.suspectAll(o.base, c.predecessor, o.began)
	}
	defer func() {
		c.close()
		o.end()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		o.advance()
		timer.Reset(time.Until(o.nextDue()))
		select {
		case <-c.wake:
		case result := <-o.results:
			if err := o.settle(result); err != nil {
				return err
			}
		case <-timer.C:
			c.submitOwn(o.due(time.Now()))
		case <-changed:
			var now raftlog.Leadership
			now, changed = c.log.Leadership()
			if !now.Leading || now.Epoch != leadership.Epoch {
				return errors.New("another epoch began")
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open lets ops in, those of the office itself first.
func (c *Controller) open(first []*op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside, c.queue, c.bytes = true, first, 0
}

// close refuses what has not been decided and all that comes.
func (c *Controller) close() {
	c.mu.Lock()
	waiting := c.queue
	c.inside, c.queue = false, nil
	c.mu.Unlock()
	for _, op := range waiting {
		op.finish(c.notActive())
	}
}

// notActive is what a controller that is not in office answers, in Kafka's words.
func (c *Controller) notActive() error {
	if leadership, _ := c.log.Leadership(); leadership.Leader != protocol.NoNode {
		return protocol.Errorf(protocol.ErrNotController, "The active controller appears to be node %d.", leadership.Leader)
	}
	return protocol.Errorf(protocol.ErrNotController, "No controller appears to be active.")
}

// submit queues an op, or answers it at once where that is impossible.
func (c *Controller) submit(o *op) {
	c.mu.Lock()
	switch {
	case !c.inside:
		c.mu.Unlock()
		o.finish(c.notActive())
		return
	case len(c.queue) >= maxQueued || len(c.queue) > 0 && c.bytes+o.bytes > maxQueuedBytes:
		c.mu.Unlock()
		o.finish(protocol.ErrRequestTimedOut)
		return
	}
	c.queue = append(c.queue, o)
	c.bytes += o.bytes
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// submitOwn queues ops of the office, which need no ringing: they come from the
// loop.
func (c *Controller) submitOwn(ops []*op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, ops...)
	for _, o := range ops {
		c.bytes += o.bytes
	}
}

// again queues an op whose records are not all yet, behind those that wait.
func (c *Controller) again(o *op) { c.submitOwn([]*op{o}) }

// next takes the first op from the queue.
func (c *Controller) next() *op {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil
	}
	o := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.bytes -= o.bytes
	return o
}

// heardInQueue returns when the last heartbeat of a broker's life came that
// waits in the queue; the zero time where none does.
func (c *Controller) heardInQueue(of life) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range slices.Backward(c.queue) {
		if o.heartbeatOf == of {
			return o.received
		}
	}
	return time.Time{}
}
