package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// enqueueStep is how long one attempt to hand the library an entry takes, which
// it can not take back on a cancelled context. Its main loop does not take
// entries while it writes.
const enqueueStep = 50 * time.Millisecond

// Propose appends one entry and waits until it is applied here; see Log.
func (e *Engine) Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (int64, error) {
	if len(data) > MaxEntryBytes {
		return Skipped, protocol.Errorf(protocol.ErrRecordListTooLarge, "an entry of %d bytes, at most %d are possible", len(data), MaxEntryBytes)
	}
	s := e.session.Load()
	if s == nil || !e.office.holds(epoch) {
		return Skipped, fmt.Errorf("propose in epoch %d: %w", epoch, protocol.ErrNotController)
	}
	// The caller may use its buffer again before an entry of unknown outcome
	// has been applied.
	res, err := s.append(ctx, bytes.Clone(data))
	if err == nil && res.term != uint64(epoch) && res.offset == Skipped {
		err = fmt.Errorf("appended in epoch %d: %w", res.term, protocol.ErrNotController)
	}
	if err != nil {
		return Skipped, fmt.Errorf("propose in epoch %d: %w", epoch, err)
	}
	return res.offset, nil
}

// append hands the library one entry when its turn has come, and waits for its
// fate. The turn ends with the fate, not with the waiting: one entry is in
// flight at a time, whatever the callers' deadlines.
func (s *session) append(ctx context.Context, data []byte) (result, error) {
	dead := s.e.fail.dead
	select {
	case s.e.turn <- struct{}{}:
	case <-dead:
		return result{}, protocol.ErrNotController
	case <-ctx.Done():
		return result{}, fmt.Errorf("%w: another entry is in flight: %w", protocol.ErrNotController, ctx.Err())
	}
	for {
		if err := errors.Join(ctx.Err(), s.e.fail.get()); err != nil {
			<-s.e.turn
			return result{}, fmt.Errorf("%w: %w", protocol.ErrNotController, err)
		}
		future := s.raft.Apply(data, enqueueStep)
		fate := make(chan error, 1)
		go func() { fate <- future.Error() }()
		select {
		case err := <-fate:
			if errors.Is(err, raft.ErrEnqueueTimeout) {
				continue
			}
			<-s.e.turn
			res, err := outcome(future, err)
			if err == nil {
				s.herald.committed(future.Index(), res.term)
			}
			return res, err
		case <-dead:
			return result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, s.e.fail.get())
		case <-ctx.Done():
			go func() {
				<-fate
				<-s.e.turn
			}()
			return result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
		}
	}
}

// outcome maps what the library says of an entry. Only an entry that it did not
// accept is surely not in the log: after a lost leadership, a shutdown or an
// error of the disk it may be there, and another leader may commit it.
func outcome(future raft.ApplyFuture, err error) (result, error) {
	switch {
	case err == nil:
		return future.Response().(result), nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return result{}, fmt.Errorf("%w: %w", protocol.ErrNotController, err)
	default:
		return result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
}
