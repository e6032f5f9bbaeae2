// Package probe finds out whether the process behind a listener is gone. A
// process that dies leaves evidence: its port refuses. A host that vanished, a
// process that was stopped and a full queue of connections do not: their dials
// run into a timeout, or are accepted.
package probe

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// Dial connects to an address and hangs up at once.
type Dial func(ctx context.Context, addr string) error

// TCP is a Dial.
func TCP(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	_ = conn.Close() // nothing was sent that could be lost
	return nil
}

// timeout bounds one dial: who does not answer by then does not refuse either.
const timeout = 500 * time.Millisecond

// Reached tells whether somebody listens at an address.
func Reached(ctx context.Context, dial Dial, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return dial(ctx, addr) == nil
}

// refused tells whether nobody listens at an address. A name with several
// addresses may be refused at the first and silent at another: the error is the
// first one's then, but the time is up.
func refused(ctx context.Context, dial Dial, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := dial(ctx, addr)
	return ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED)
}

// afterlife is how long a dying process may take to close what it has open.
const afterlife = 20 * time.Millisecond

// Gone tells whether an address refuses twice in a row, a pause apart: one refusal
// could be a listener that is opened again. Before them one dial may be accepted: a
// process that dies closes its connections and its listener one after the other.
func Gone(ctx context.Context, dial Dial, addr string, pause time.Duration) bool {
	if !refused(ctx, dial, addr) && !(Pause(ctx, afterlife) && refused(ctx, dial, addr)) {
		return false
	}
	return Pause(ctx, pause) && refused(ctx, dial, addr)
}

// Pause returns true after d, or false when ctx ends before.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
