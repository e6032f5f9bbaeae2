package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// doubtful tells whether the answer says to a consumer that an offset is out of
// range. A leader that stood still, or was cut off, may have been replaced and not
// know it yet; what others have committed since it takes for out of range, and the
// consumer would begin anew somewhere else.
func (run *fetchRun) doubtful() bool {
	if run.follower {
		return false // its epoch tells it
	}
	for i := range run.items {
		if errors.Is(run.items[i].err, protocol.ErrOffsetOutOfRange) {
			return true
		}
	}
	return false
}

// ascertain reads again once this broker knows what the controller knows, and answers.
// Where the controller does not say, nobody knows what is out of range.
func (run *fetchRun) ascertain(ctx context.Context) server.Answer {
	run.releaseAll()
	within, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	unsure := run.h.images.CatchUp(within)
	if err := ctx.Err(); err != nil {
		return server.Answer{Close: fmt.Errorf("fetch waited for the controller: %w", err)}
	}
	run.read()
	for i := range run.items {
		if it := &run.items[i]; unsure != nil && errors.Is(it.err, protocol.ErrOffsetOutOfRange) {
			it.err = fmt.Errorf("%w: out of range, unless there is another leader: %w", protocol.ErrOffsetNotAvailable, unsure)
		}
	}
	return run.answer()
}
