package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller"
	"github.com/klamm/klamm/protocol"
)

// change completes a change of metadata that a client asked for: its answer
// waits until those who serve clients in this process have acted on it, so that
// whoever asked finds what it changed. failed makes an answer of an error of the
// whole request.
func change[R kmsg.Response](
	h *handlers, c call, api kmsg.Key, what string, deadline time.Time,
	pending *controller.Pending[controller.Change[R]], failed func(code int16, message *string) R,
) answer {
	return func(ctx context.Context) (kmsg.Response, error) {
		done, err := pending.Wait(ctx)
		if err != nil {
			return failed(h.code(err, api), protocol.MessageOf(err)), err
		}
		if done.Offset < 0 {
			return done.Response, nil
		}
		h.changed(c, what)
		if h.Applied != nil {
			// The change is made: who is not served in time finds it soon.
			ctx, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			_ = h.Applied(ctx, done.Offset)
		}
		return done.Response, nil
	}
}

// answered is the answer of a call that waits for nobody.
func answered(resp kmsg.Response) answer {
	return func(context.Context) (kmsg.Response, error) { return resp, nil }
}
