package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
)

// Call is an event on its way, and the claim to its answer. One goroutine waits
// for it, if any: an answer that nobody fetches is dropped.
type Call struct {
	// decided has size 1: there is one decision, and the loop never waits.
	decided  chan decision
	patience time.Duration // for the commit, from the decision on
}

// decision is an answer, and what has to be committed before it may be given.
type decision struct {
	answer any
	err    error
	from   Partition // nil where nothing is to be waited for
	after  replica.Appended
}

// refused is a call that was decided before it began.
func refused(err error) *Call {
	c := &Call{decided: make(chan decision, 1)}
	c.decided <- decision{err: err}
	return c
}

// Wait returns the answer once everything that it was decided on is committed.
// It may be called once. Errors are those of the machine, ctx's, or one of
// COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE.
func (c *Call) Wait(ctx context.Context) (any, error) {
	var d decision
	select {
	case d = <-c.decided:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d.from == nil {
		return d.answer, d.err
	}
	if err := d.committed(ctx, time.Now().Add(c.patience)); err != nil {
		return nil, err
	}
	return d.answer, d.err
}

// committed waits at the partition, on the caller's goroutine.
func (d *decision) committed(ctx context.Context, deadline time.Time) error {
	if d.after.FlushDue {
		if err := d.from.Flush(d.after); err != nil {
			return clientError(err)
		}
	}
	w := replica.NewWaiter(1)
	for {
		done, err := d.from.Committed(d.after)
		if err != nil {
			return clientError(err)
		}
		if done {
			return nil
		}
		d.from.ParkForCommit(w, d.after)
		woken := w.Wait(ctx, deadline)
		if err := ctx.Err(); err != nil {
			return err
		}
		if !woken {
			return clientError(protocol.ErrRequestTimedOut)
		}
	}
}

// clientError says an error of the log as clients of a coordinator expect it
// (CoordinatorOperationExceptionHelper.java): look for the coordinator again,
// try again, or give up.
func clientError(err error) error {
	switch protocol.CodeOf(err) {
	case protocol.ErrUnknownTopicOrPartition, protocol.ErrNotEnoughReplicas, protocol.ErrNotEnoughReplicasAfterAppend,
		protocol.ErrRequestTimedOut:
		return fmt.Errorf("%w: %w", protocol.ErrCoordinatorNotAvailable, err)
	case protocol.ErrNotLeaderForPartition, protocol.ErrKafkaStorageError:
		return fmt.Errorf("%w: %w", protocol.ErrNotCoordinator, err)
	case protocol.ErrMessageTooLarge, protocol.ErrRecordListTooLarge:
		return fmt.Errorf("%w: %w", protocol.ErrUnknownServerError, err)
	}
	return err
}
