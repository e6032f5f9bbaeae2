package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// prefetchBelow is how many ids of a block are left when the next one is asked
// for: a tenth of a block of 1000, as in Kafka.
const prefetchBelow = 100

// ProducerIDs hands out producer ids from blocks that the controller allocates.
// An id is unique for the life of the cluster: a block belongs to one life of
// one broker, and what is left of it when that ends is lost.
type ProducerIDs struct {
	controller Controller
	node       protocol.NodeID
	epoch      func() protocol.BrokerEpoch
	log        zerolog.Logger
	need       chan struct{} // size 1: a wish for a block; more wishes add nothing

	mu      sync.Mutex
	current block
	next    block
	changed chan struct{} // closed when a block or an error arrives
	failed  error         // of the last request, nil once one succeeded
}

// block is a span of ids, end exclusive.
type block struct{ start, end int64 }

func (b block) empty() bool { return b.start >= b.end }

func newProducerIDs(controller Controller, node protocol.NodeID, epoch func() protocol.BrokerEpoch, log zerolog.Logger) *ProducerIDs {
	return &ProducerIDs{
		controller: controller, node: node, epoch: epoch, log: log,
		need: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// Next returns an id that nobody else gets. Where the controller has to be asked
// for a block first it waits, until ctx ends or the controller refuses.
func (p *ProducerIDs) Next(ctx context.Context) (int64, error) {
	asked := false
	for {
		p.mu.Lock()
		if p.current.empty() {
			p.current, p.next = p.next, block{}
		}
		if id := p.current.start; !p.current.empty() {
			p.current.start++
			if p.current.end-p.current.start < prefetchBelow && p.next.empty() {
				p.ask()
			}
			p.mu.Unlock()
			return id, nil
		}
		changed, failed := p.changed, p.failed
		if !asked {
			p.failed, failed = nil, nil
			p.ask()
			asked = true
		}
		p.mu.Unlock()
		if failed != nil {
			return -1, failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: no block of producer ids yet", protocol.ErrCoordinatorLoadInProgress)
		}
	}
}

func (p *ProducerIDs) ask() {
	select {
	case p.need <- struct{}{}:
	default:
	}
}

// run fetches blocks as they are needed, until ctx ends.
func (p *ProducerIDs) run(ctx context.Context) {
	for {
		select {
		case <-p.need:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		enough := !p.next.empty() || p.current.end-p.current.start >= prefetchBelow
		p.mu.Unlock()
		if enough {
			continue // the wish was fulfilled while it waited
		}
		got, err := p.allocate(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("no producer ids from the controller")
		}
		p.mu.Lock()
		if err == nil {
			p.next = got
		}
		p.failed = err
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *ProducerIDs) allocate(ctx context.Context) (block, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = int32(p.node), int64(p.epoch())
	resp, err := p.controller.Do(ctx, req)
	if err != nil {
		return block{}, fmt.Errorf("%w: %w", protocol.ErrCoordinatorLoadInProgress, err)
	}
	r, ok := resp.(*kmsg.AllocateProducerIDsResponse)
	if !ok {
		return block{}, fmt.Errorf("the controller answered %T", resp)
	}
	if code := protocol.Error(r.ErrorCode); code != protocol.None {
		// A stale epoch and the like pass with a new registration; producers try
		// again on this code.
		return block{}, fmt.Errorf("%w: allocate producer ids: %w", protocol.ErrCoordinatorLoadInProgress, code)
	}
	got := block{start: r.ProducerIDStart, end: r.ProducerIDStart + int64(r.ProducerIDLen)}
	if got.empty() || got.start < 0 {
		return block{}, fmt.Errorf("the controller allocated %d producer ids from %d on", r.ProducerIDLen, r.ProducerIDStart)
	}
	return got, nil
}
