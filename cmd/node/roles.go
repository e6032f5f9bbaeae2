package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// stage is goroutines that end together: the first error ends them all, and
// whoever waits for the stage gets it.
type stage struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
}

// newStage returns a stage that does not end with ctx: the order of a stop is
// the node's to keep.
func newStage(ctx context.Context) *stage {
	s := &stage{}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return s
}

// errStopped is the cause of a stage that was told to end.
var errStopped = errors.New("stopped")

// run starts fn. An error, or a return before the stage is told to end, ends
// the stage.
func (s *stage) run(name string, fn func(context.Context) error) {
	s.group.Go(func() {
		err := fn(s.ctx)
		if s.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
			return
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		s.cancel(fmt.Errorf("%s: %w", name, err))
	})
}

// stop ends the stage, waits for it and returns what made it fail, if anything.
func (s *stage) stop() error {
	s.cancel(errStopped)
	s.group.Wait()
	if err := context.Cause(s.ctx); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// runRoles runs the controller below the broker: the broker needs it to the
// very end of its controlled shutdown. On a node without a controller it is what
// follows the metadata that lies below.
func (n *node) runRoles(ctx context.Context, meta *metadata) error {
	below := newStage(ctx)
	if !n.cfg.Node.IsController {
		follower, err := n.startFollower(below, meta)
		if err != nil {
			return errors.Join(err, below.stop())
		}
		n.gauges.follower.Store(follower)
		return errors.Join(n.runAbove(ctx, below, func(ctx context.Context) error {
			return n.runBroker(ctx, below, meta, follower)
		}), below.stop())
	}
	quorum, err := n.startController(ctx, below, meta)
	if err != nil {
		return errors.Join(err, below.stop())
	}
	err = n.runAbove(ctx, below, func(ctx context.Context) error {
		if n.cfg.Node.IsBroker {
			return n.runBroker(ctx, below, meta, quorum)
		}
		<-ctx.Done()
		return nil
	})
	return errors.Join(err, below.stop(), quorum.close())
}

// runAbove runs what stops when it is asked to, and when the ground goes from
// under it.
func (n *node) runAbove(ctx context.Context, below *stage, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(below.ctx, cancel)()
	return run(ctx)
}
