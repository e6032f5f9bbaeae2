package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// allocator is a controller that hands out blocks.
type allocator struct {
	mu     sync.Mutex
	next   int64
	asked  int
	takes  time.Duration
	errors []protocol.Error // for the requests to come, None where it works
}

func (a *allocator) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	sleep(ctx, a.takes)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	r := req.(*kmsg.AllocateProducerIDsRequest)
	if r.BrokerID != 1 || r.BrokerEpoch != 5 {
		return nil, fmt.Errorf("broker %d, epoch %d", r.BrokerID, r.BrokerEpoch)
	}
	if len(a.errors) > 0 {
		code := a.errors[0]
		a.errors = a.errors[1:]
		if code != protocol.None {
			return &kmsg.AllocateProducerIDsResponse{ErrorCode: int16(code), ProducerIDStart: -1}, nil
		}
	}
	resp := &kmsg.AllocateProducerIDsResponse{ProducerIDStart: a.next, ProducerIDLen: 1000}
	a.next += 1000
	return resp, nil
}

func runProducerIDs(t *testing.T, a *allocator, test func(t *testing.T, p *ProducerIDs)) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducerIDs(a, 1, func() protocol.BrokerEpoch { return 5 }, zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.run(ctx)
		}()
		test(t, p)
		cancel()
		<-done
	})
}

func TestProducerIDsAreUnique(t *testing.T) {
	a := &allocator{takes: time.Millisecond}
	runProducerIDs(t, a, func(t *testing.T, p *ProducerIDs) {
		var (
			mu    sync.Mutex
			seen  = make(map[int64]bool)
			group sync.WaitGroup
		)
		for range 8 {
			group.Go(func() {
				for range 500 {
					id, err := p.Next(t.Context())
					mu.Lock()
					if err != nil || seen[id] {
						t.Errorf("id %d a second time, or %v", id, err)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if len(seen) != 4000 || a.asked > 5 {
			t.Errorf("%d ids from %d blocks", len(seen), a.asked)
		}
	})
}

// Nothing is allocated before somebody needs an id; the second block is there
// before the first is used up.
func TestProducerIDsArePrefetched(t *testing.T) {
	a := &allocator{takes: 10 * time.Millisecond}
	runProducerIDs(t, a, func(t *testing.T, p *ProducerIDs) {
		synctest.Wait()
		if a.asked != 0 {
			t.Errorf("%d blocks although nobody asked for an id", a.asked)
		}
		for i := range int64(2000) {
			begin := time.Now()
			id, err := p.Next(t.Context())
			if err != nil || id != i {
				t.Fatalf("got %d, %v, want %d", id, err, i)
			}
			if took := time.Since(begin); took > 0 && i > 0 {
				t.Fatalf("id %d took %v", i, took)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestProducerIDsWithoutAController(t *testing.T) {
	a := &allocator{takes: time.Minute}
	runProducerIDs(t, a, func(t *testing.T, p *ProducerIDs) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Next(ctx); protocol.CodeOf(err) != protocol.ErrCoordinatorLoadInProgress {
			t.Errorf("got %v, want a code that makes producers try again", err)
		}
	})
}

func TestProducerIDsRefused(t *testing.T) {
	a := &allocator{errors: []protocol.Error{protocol.ErrStaleBrokerEpoch}}
	runProducerIDs(t, a, func(t *testing.T, p *ProducerIDs) {
		if _, err := p.Next(t.Context()); protocol.CodeOf(err) != protocol.ErrCoordinatorLoadInProgress {
			t.Errorf("got %v, want a code that makes producers try again", err)
		}
		if id, err := p.Next(t.Context()); id != 0 || err != nil {
			t.Errorf("the next try: got %d, %v", id, err)
		}
	})
}
