package sim

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// flight is a client's request whose answer the driver looks at, at a step of its
// own: what a client does next shall not hang on which goroutine is first.
type flight struct {
	mu   sync.Mutex
	over bool
	resp kmsg.Response
}

func (f *flight) land(resp kmsg.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.resp = true, resp
}

// landed returns what was answered, nil where nothing was; over is false while it is
// not known.
func (f *flight) landed() (resp kmsg.Response, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resp, f.over
}

// fly sends a request on a connection.
func (w *world) fly(c *conn, req kmsg.Request, timeout time.Duration) *flight {
	f := &flight{}
	w.ops.Go(func() {
		ctx, cancel := context.WithTimeout(w.done, timeout)
		defer cancel()
		resp, err := c.Request(ctx, req)
		if err != nil {
			resp = nil
		}
		f.land(resp)
	})
	return f
}

// connect is a client's connection to a broker, nil where there is none to be had now.
func (w *world) connect(n *node) *conn {
	if w.net.severed(outside, n.id) {
		return nil
	}
	c, err := w.net.dial(w.done, nil, hostPort(n.id, protocol.BrokerListener))
	if err != nil {
		return nil
	}
	return c
}
