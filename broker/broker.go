package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// Broker is one life of a broker: it runs once.
type Broker struct {
	cfg         Config
	log         zerolog.Logger
	incarnation protocol.UUID
	seen        *Applied // what has arrived, acted on or not
	applied     *Applied
	producerIDs *ProducerIDs
	catchUp     *catchUp
	heart       atomic.Pointer[heart] // nil before the registration

	mu         sync.Mutex // a leaf
	failedDirs []protocol.UUID

	state   atomic.Int32
	epoch   atomic.Int64
	serving chan struct{} // closed at Running
	done    chan struct{} // closed when Run returns
}

// New returns a broker that does nothing yet.
func New(cfg Config, log zerolog.Logger) *Broker {
	cfg.setDefaults()
	b := &Broker{
		cfg:         cfg,
		log:         log.With().Str("component", "broker").Int32("broker", int32(cfg.NodeID)).Logger(),
		incarnation: protocol.NewUUID(),
		seen:        newApplied(nil, nil),
		serving:     make(chan struct{}),
		done:        make(chan struct{}),
	}
	b.epoch.Store(-1)
	b.applied = newApplied(cfg.Replicas, b.progressed)
	b.producerIDs = newProducerIDs(cfg.Requests, cfg.NodeID, b.Epoch, b.log)
	b.catchUp = newCatchUp(cfg.Requests)
	return b
}

// State is where the broker is in its life.
func (b *Broker) State() State { return State(b.state.Load()) }

// Epoch is the epoch of the registration, −1 before it. It goes into the
// clean-shutdown marks, Fetch and AlterPartition.
func (b *Broker) Epoch() protocol.BrokerEpoch { return protocol.BrokerEpoch(b.epoch.Load()) }

// Serving is closed when clients may be let in.
func (b *Broker) Serving() <-chan struct{} { return b.serving }

// Done is closed when Run has returned.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Applied is the metadata as far as the broker has acted on it.
func (b *Broker) Applied() *Applied { return b.applied }

// Image is the image that the replicas have acted on.
func (b *Broker) Image() *metadata.Image { return b.applied.Image() }

// DirFailed reports a log directory as out of service: the controller takes the
// replicas in it out of office. The broker must have been registered.
func (b *Broker) DirFailed(dir protocol.UUID) {
	b.mu.Lock()
	b.failedDirs = append(b.failedDirs, dir)
	b.mu.Unlock()
	b.heart.Load().beatNow()
}

// offline are the log directories that have gone out of service.
func (b *Broker) offline() []protocol.UUID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.failedDirs)
}

func (b *Broker) setState(s State) {
	b.state.Store(int32(s))
	b.log.Info().Int32("state", int32(s)).Stringer("state_name", s).Msg("broker state")
}

// Run lives the broker's life: start, serve until ctx ends, controlled
// shutdown. It returns nil after an orderly stop, or what made the broker stop;
// a start that ctx cut short is orderly.
func (b *Broker) Run(ctx context.Context) error {
	defer close(b.done)
	b.setState(Starting)
	defer b.setState(ShuttingDown)
	b.cfg.Subscribe(b.seen)

	epoch, err := b.register(ctx)
	if err != nil {
		return orderly(ctx, err)
	}
	b.epoch.Store(int64(epoch))
	b.log.Info().Int64("broker_epoch", int64(epoch)).Stringer("incarnation", b.incarnation).Msg("registered")

	// What runs in the background outlives ctx: the controlled shutdown needs it.
	background, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	h := newHeart(&b.cfg, b.log, epoch, b.offset, b.offline)
	b.heart.Store(h)
	group.Go(func() { h.run(background) })

	if err := b.start(ctx, background, h, &group, stop); err != nil {
		return orderly(ctx, err)
	}
	select {
	case <-ctx.Done():
	case <-background.Done():
		return context.Cause(background)
	}
	b.controlledShutdown(background, h)
	return nil
}

// orderly returns nil where err is but ctx's end.
func orderly(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// progressed lets the controller know that the broker has acted on more.
func (b *Broker) progressed() {
	if h := b.heart.Load(); h != nil {
		h.progressed()
	}
}

// offset is the end of what the broker has acted on; before it acts on
// anything, of what has arrived.
func (b *Broker) offset() int64 {
	if offset := b.applied.Image().Offset(); offset >= 0 {
		return offset
	}
	return b.seen.Image().Offset()
}

// start brings the registered broker to serving.
func (b *Broker) start(ctx, background context.Context, h *heart, group *sync.WaitGroup, fail context.CancelCauseFunc) error {
	img, err := b.seen.Wait(ctx, b.registeredIn)
	if err != nil {
		return fmt.Errorf("catch up with the metadata: %w", err)
	}
	b.setState(Recovery)
	if b.cfg.Load != nil {
		if err := b.cfg.Load(ctx, img); err != nil {
			return fmt.Errorf("load logs: %w", err)
		}
	}
	group.Go(func() { b.producerIDs.run(background) })
	group.Go(func() { b.catchUp.run(background) })
	if !img.Level().HasDirectories() {
		group.Go(func() { b.registerDirs(background) })
	}
	for _, run := range b.cfg.Background {
		group.Go(func() {
			if err := run(background); err != nil && background.Err() == nil {
				fail(err)
			}
		})
	}
	b.cfg.Subscribe(b.applied)
	if err := b.applied.WaitApplied(ctx, img.Offset()); err != nil {
		return fmt.Errorf("become leader and follower: %w", err)
	}
	h.unfence()
	select {
	case <-h.unfenced:
	case <-ctx.Done():
		return fmt.Errorf("be unfenced: %w", ctx.Err())
	case <-background.Done():
		return context.Cause(background)
	}
	// Clients that are let in now find this broker in its own answers.
	if _, err := b.applied.Wait(ctx, b.unfencedIn); err != nil {
		return fmt.Errorf("see itself unfenced: %w", err)
	}
	b.setState(Running)
	close(b.serving)
	return nil
}

// registeredIn tells whether an image has this registration. Its epoch is the
// offset of its first record, which after an unclean stop is not the
// registration's own.
func (b *Broker) registeredIn(img *metadata.Image) bool {
	self, ok := img.Broker(b.cfg.NodeID)
	return ok && self.Epoch >= b.Epoch()
}

func (b *Broker) unfencedIn(img *metadata.Image) bool {
	self, ok := img.Broker(b.cfg.NodeID)
	return ok && self.Epoch == b.Epoch() && !self.Fenced
}

// controlledShutdown asks the controller to take everything from this broker
// and waits until it has, within bounds.
func (b *Broker) controlledShutdown(ctx context.Context, h *heart) {
	if !b.cfg.ControlledShutdown {
		return
	}
	b.setState(PendingControlledShutdown)
	begin := time.Now()
	h.shutdown()
	deadline := time.NewTimer(b.cfg.ShutdownTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(b.cfg.ShutdownSilence / 10)
	defer tick.Stop()
	for {
		select {
		case <-h.released:
			b.log.Info().Dur("took", time.Since(begin)).Msg("controlled shutdown done")
			return
		case <-deadline.C:
			b.log.Warn().Dur("waited", time.Since(begin)).Msg("controlled shutdown given up: the controller did not finish it")
			return
		case <-tick.C:
			if time.Since(begin) >= b.cfg.ShutdownSilence && h.silence() >= b.cfg.ShutdownSilence {
				b.log.Warn().Dur("waited", time.Since(begin)).Msg("controlled shutdown given up: no controller answers")
				return
			}
		case <-b.cfg.Lost:
			b.log.Warn().Msg("controlled shutdown left out: the metadata log has failed")
			return
		case <-ctx.Done():
			return
		}
	}
}
