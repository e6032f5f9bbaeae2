package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/probe"
)

// Failure by evidence: a broker whose process died is fenced at once, not when
// its session has timed out. The suspicion begins with the end of a connection
// that carried its heartbeats, or with a new office, which does not know who
// lives; two refusals of its listener prove it; any heartbeat or registration
// meanwhile clears it. A refusal counts only from a listener that this node has
// reached in the same life of the broker: it may advertise an address that is
// good for others only.
const (
	// refusalPause lies between the two refusals. A false fencing costs more than
	// a false election, so it is longer than raftlog's.
	refusalPause = 150 * time.Millisecond
	// reachAttempts bounds the dials to a broker, which listens once it knows that
	// it is unfenced: soon, and later on a busy machine. Each pause is longer by
	// reachPause than the one before, 12 s in all.
	reachAttempts = 31
	reachPause    = 25 * time.Millisecond
	// maxPursuits bounds the suspicions that are looked into at a time. Of a new
	// office there is one per broker, and those whose host vanished take a second.
	maxPursuits = 64
)

// suspicion is that a life of a broker has ended.
type suspicion struct {
	life
	since time.Time
}

// detector follows up the evidence, on every controller: a standby reaches the
// listeners while their brokers live.
type detector struct {
	own      protocol.NodeID
	listener string // of brokers for brokers
	images   Images
	dial     probe.Dial
	gone     func(suspicion) // a process is gone
	log      zerolog.Logger

	wake chan struct{} // size 1: there is something in a queue

	mu       sync.Mutex // guards what follows; nothing is locked under it
	unfenced []life     // to be reached
	suspects []suspicion
	reached  map[life]bool // of registered lives; false while it is tried
	pursued  map[life]bool
}

func newDetector(cfg *Config, images Images, gone func(suspicion), log zerolog.Logger) *detector {
	return &detector{
		own: cfg.Env.NodeID, listener: cfg.InterBroker, images: images, dial: cfg.Probe, gone: gone, log: log,
		wake: make(chan struct{}, 1), reached: make(map[life]bool), pursued: make(map[life]bool),
	}
}

// publish takes note of who has come, may be reached, or has gone.
func (d *detector) publish(delta *metadata.Delta) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for before, after := range delta.ChangedBrokers() {
		if before != nil && (after == nil || after.Epoch != before.Epoch) {
			delete(d.reached, life{before.ID, before.Epoch})
		}
		if after == nil || after.Fenced || after.ID == d.own {
			continue
		}
		of := life{after.ID, after.Epoch}
		if _, known := d.reached[of]; !known {
			d.reached[of] = false
			d.unfenced = append(d.unfenced, of)
			d.ring()
		}
	}
}

// suspect takes note of lives that may have ended, the likeliest first.
func (d *detector) suspect(since time.Time, lives ...life) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range lives {
		if !d.pursued[of] && of.broker != d.own {
			d.pursued[of] = true
			d.suspects = append(d.suspects, suspicion{of, since})
			d.ring()
		}
	}
}

func (d *detector) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run follows up until ctx ends, and returns when all that it started has ended.
func (d *detector) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, maxPursuits)
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		unfenced, suspects := d.unfenced, d.suspects
		d.unfenced, d.suspects = nil, nil
		d.mu.Unlock()
		for _, of := range unfenced {
			group.Go(func() { d.reach(ctx, of) })
		}
		for _, s := range suspects {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			group.Go(func() {
				d.pursue(ctx, s)
				<-slots
			})
		}
	}
}

// address is where a life of a broker serves brokers; "" where it is over, or on
// its way out.
func (d *detector) address(of life) string {
	b, ok := d.images.Image().Broker(of.broker)
	if !ok || b.Epoch != of.epoch || b.Fenced || b.InControlledShutdown {
		return ""
	}
	if len(b.Endpoints) == 0 {
		return ""
	}
	// A node that is no broker does not know the name; then any listener will do.
	at := slices.IndexFunc(b.Endpoints, func(e record.Endpoint) bool { return e.Name == d.listener })
	return b.Endpoints[max(at, 0)].Address()
}

// reach dials a broker until it has been reached once, some times.
func (d *detector) reach(ctx context.Context, of life) {
	var addr string
	for i := range reachAttempts {
		if addr = d.address(of); addr == "" {
			break
		}
		if probe.Reached(ctx, d.dial, addr) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if _, registered := d.reached[of]; registered {
				d.reached[of] = true
			}
			return
		}
		if !probe.Pause(ctx, time.Duration(i+1)*reachPause) {
			return
		}
	}
	// It is tried again when the broker is unfenced the next time.
	d.mu.Lock()
	delete(d.reached, of)
	d.mu.Unlock()
	if addr != "" {
		d.log.Warn().Int32("broker", int32(of.broker)).Str("endpoint", addr).
			Msg("the broker's listener can not be reached: its death will be found by the session's timeout only")
	}
}

// pursue reports a life whose listener refuses.
func (d *detector) pursue(ctx context.Context, s suspicion) {
	d.mu.Lock()
	reached := d.reached[s.life]
	d.mu.Unlock()
	addr := d.address(s.life)
	gone := reached && addr != "" && probe.Gone(ctx, d.dial, addr, refusalPause)
	d.log.Debug().Int32("broker", int32(s.broker)).Int64("broker_epoch", int64(s.epoch)).Str("endpoint", addr).
		Bool("reached", reached).Bool("gone", gone).Msg("looked for a broker's process")
	d.mu.Lock()
	delete(d.pursued, s.life)
	d.mu.Unlock()
	if gone {
		d.gone(s)
	}
}

// suspectAll has a new office look for who died with the office before, on its
// leader's node first.
func (d *detector) suspectAll(img *metadata.Image, predecessor protocol.NodeID, since time.Time) {
	var lives []life
	for b := range img.Brokers() {
		switch of := (life{b.ID, b.Epoch}); {
		case b.Fenced:
		case b.ID == predecessor:
			lives = slices.Insert(lives, 0, of)
		default:
			lives = append(lives, of)
		}
	}
	d.suspect(since, lives...)
}
