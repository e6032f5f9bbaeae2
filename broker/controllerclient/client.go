package controllerclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

// Conn is one connection to a node.
type Conn interface {
	// Request sends a request, in the highest version that both sides know, and
	// returns its answer. After an error the connection is of no further use.
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close() error
}

// Config is what a Client is made from.
type Config struct {
	// Voters are the controllers that are asked in turn where Leader is nil, and
	// where they listen, HOST:PORT.
	Voters map[protocol.NodeID]string
	// Address returns where the leader listens, HOST:PORT. Default: as Voters says.
	Address func(protocol.NodeID) (string, bool)
	// Leader returns the active controller as this node knows it, NoNode where
	// it does not, and a channel that is closed at the next change of that or of
	// the leader's readiness. Nil where this node can not know: the voters are
	// then asked in turn.
	Leader func() (protocol.NodeID, <-chan struct{})
	// Known returns the controllers that may lead. One after the other they are
	// asked too where the leader that this node knows does not answer as one: a
	// node that is busy with the metadata hears late of another. Nil: the leader
	// alone is asked.
	Known func() []protocol.NodeID
	// Dial opens a connection: see Dialer.
	Dial func(ctx context.Context, addr string) (Conn, error)
	// MaxConns bounds the connections, and so the requests under way; more wait.
	// Default 4: enough for the controller to put several requests into one round.
	MaxConns int
	// AttemptTimeout bounds one attempt, so that a host that vanished without a
	// word does not hold a request to its deadline. Shorter than what the
	// controller may take for a request it makes a second one of it, which finds
	// the topic that the first one created. Default 30 s (request.timeout.ms).
	AttemptTimeout time.Duration
	// Jitter lengthens a pause, so that requests that lost the controller at one
	// moment do not all come back at one. Default: by up to a tenth, at random.
	Jitter func(pause time.Duration) time.Duration
}

// Dialer returns a Config.Dial over real connections.
func Dialer(cfg client.Config) func(ctx context.Context, addr string) (Conn, error) {
	return func(ctx context.Context, addr string) (Conn, error) {
		conn, err := client.Dial(ctx, addr, cfg)
		if err != nil {
			return nil, err // a nil *client.Conn must not become a Conn
		}
		return conn, nil
	}
}

// Pauses between attempts where nothing tells when to try again. The first ones
// are short since an election is over within 0.1 s.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Client sends requests to the active controller.
type Client struct {
	cfg    Config
	log    zerolog.Logger
	voters []protocol.NodeID // sorted, to be asked in turn
	slots  chan struct{}     // one per connection that may be open; full: callers wait

	mu     sync.Mutex
	closed bool
	idle   []idleConn
	turn   int // index into the controllers of the one to ask where nobody knows the leader
	// believed is the leader as Leader said last, asked who is asked in its place,
	// the same until it has failed.
	believed, asked protocol.NodeID
}

type idleConn struct {
	Conn
	node protocol.NodeID
}

// New returns a client. It connects when it is used.
func New(cfg Config, log zerolog.Logger) *Client {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 4
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = 30 * time.Second
	}
	if cfg.Jitter == nil {
		cfg.Jitter = func(pause time.Duration) time.Duration { return pause + rand.N(pause/10) }
	}
	if cfg.Address == nil {
		cfg.Address = func(id protocol.NodeID) (string, bool) {
			addr, ok := cfg.Voters[id]
			return addr, ok
		}
	}
	return &Client{
		cfg:    cfg,
		log:    log.With().Str("component", "controllerclient").Logger(),
		voters: slices.Sorted(maps.Keys(cfg.Voters)),
		slots:  make(chan struct{}, cfg.MaxConns),

		believed: protocol.NoNode, asked: protocol.NoNode,
	}
}

// Close closes the idle connections; those in use are closed when their request
// has ended.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.dropIdle()
}

func (c *Client) dropIdle() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, conn := range idle {
		_ = conn.Close()
	}
}

var (
	errLeaderMoved   = errors.New("the controller changed")
	errUnknownLeader = errors.New("no active controller is known")
)

// Do sends req to the active controller until that answers, and returns the
// answer. It gives up with ctx: the error then wraps ErrRequestTimedOut and says
// what stood in the way.
func (c *Client) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, c.gaveUp(req, ctx, errors.New("all connections to the controller are in use"))
	}
	pause := firstPause
	for {
		asked, believed, changed := c.leader()
		resp, err := c.attempt(ctx, asked, believed, req)
		if err == nil {
			return resp, nil
		}
		if !errors.Is(err, errLeaderMoved) && !errors.Is(ctx.Err(), context.Canceled) {
			c.nextTurn(asked)
		}
		if ctx.Err() != nil {
			return nil, c.gaveUp(req, ctx, err)
		}
		if e := c.log.Debug(); e.Enabled() {
			e.Err(err).Int32("node", int32(asked)).Str("request", kmsg.NameForKey(req.Key())).Msg("controller did not answer, trying again")
		}
		if errors.Is(err, errLeaderMoved) {
			continue
		}
		if waitFor(ctx, changed, c.cfg.Jitter(pause)) {
			pause = firstPause // a new leader is not in office at once, but soon
		} else {
			pause = min(2*pause, maxPause)
		}
	}
}

func (c *Client) gaveUp(req kmsg.Request, ctx context.Context, err error) error {
	name := kmsg.NameForKey(req.Key())
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s to the controller: %w: %w", name, protocol.ErrRequestTimedOut, err)
	}
	return fmt.Errorf("%s to the controller: %w: %w", name, ctx.Err(), err)
}

// waitFor returns after d, at the closing of changed, or when ctx ends; true for
// the second.
func waitFor(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
		return true
	case <-ctx.Done():
	}
	return false
}

// leader returns whom to ask, who is believed to lead, and a channel that is closed
// when another should be asked; the channel may be nil.
func (c *Client) leader() (asked, believed protocol.NodeID, changed <-chan struct{}) {
	if c.cfg.Leader != nil {
		believed, changed = c.cfg.Leader()
		c.mu.Lock()
		defer c.mu.Unlock()
		if believed != c.believed {
			c.believed, c.asked = believed, believed
		}
		return c.asked, believed, changed
	}
	if len(c.voters) == 0 {
		return protocol.NoNode, protocol.NoNode, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.voters[c.turn%len(c.voters)]
	return node, node, nil
}

// nextTurn moves on to another controller after node did not help. Every other time
// that is the one believed to lead, which may only have to take office.
func (c *Client) nextTurn(node protocol.NodeID) {
	voters := c.voters
	if c.cfg.Leader != nil {
		voters = nil
		if c.cfg.Known != nil {
			voters = slices.Sorted(slices.Values(c.cfg.Known()))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cfg.Leader == nil:
		if len(voters) > 0 && voters[c.turn%len(voters)] == node {
			c.turn++
		}
	case node != c.asked: // another request has moved on
	case node != c.believed && c.believed != protocol.NoNode:
		c.asked = c.believed
	default:
		others := slices.DeleteFunc(voters, func(id protocol.NodeID) bool { return id == c.believed })
		if len(others) > 0 {
			c.asked = others[c.turn%len(others)]
			c.turn++
		}
	}
}

// attempt asks one node once.
func (c *Client) attempt(ctx context.Context, node, believed protocol.NodeID, req kmsg.Request) (kmsg.Response, error) {
	addr, ok := c.cfg.Address(node)
	if !ok {
		if node == protocol.NoNode {
			return nil, errUnknownLeader
		}
		return nil, fmt.Errorf("controller %d is none of the voters", node)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	ctx, unwatch := c.watch(ctx, node, believed)
	defer unwatch()
	conn, err := c.take(ctx, node, addr)
	if err != nil {
		return nil, attemptError(ctx, "connect to", node, addr, err)
	}
	resp, err := conn.Request(ctx, req)
	if err != nil {
		_ = conn.Close()
		c.dropIdle() // they lead to the same node, and may be as dead
		return nil, attemptError(ctx, "ask", node, addr, err)
	}
	c.give(conn)
	if notController(resp) {
		return nil, fmt.Errorf("controller %d: %w", node, protocol.ErrNotController)
	}
	return resp, nil
}

func attemptError(ctx context.Context, op string, node protocol.NodeID, addr string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errLeaderMoved) {
		return cause
	}
	return fmt.Errorf("%s controller %d at %s: %w", op, node, addr, err)
}

// watch returns a context that also ends when another node leads than the one
// that is asked, and than was believed to when it was asked. The function ends the
// watch and must be called.
func (c *Client) watch(ctx context.Context, asked, believed protocol.NodeID) (context.Context, func()) {
	if c.cfg.Leader == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			leader, changed := c.cfg.Leader()
			if leader != asked && leader != believed && leader != protocol.NoNode {
				cancel(errLeaderMoved)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}

// take returns an idle connection to node, or a new one. Idle ones to other
// nodes are closed: they did not lead any more.
func (c *Client) take(ctx context.Context, node protocol.NodeID, addr string) (idleConn, error) {
	var found idleConn
	c.mu.Lock()
	var stale []idleConn
	for len(c.idle) > 0 && found.Conn == nil {
		conn := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if conn.node == node {
			found = conn
		} else {
			stale = append(stale, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range stale {
		_ = conn.Close()
	}
	if found.Conn != nil {
		return found, nil
	}
	conn, err := c.cfg.Dial(ctx, addr)
	return idleConn{Conn: conn, node: node}, err
}

// give returns a connection after use.
func (c *Client) give(conn idleConn) {
	c.mu.Lock()
	if !c.closed {
		c.idle = append(c.idle, conn)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	_ = conn.Close()
}

// notController tells whether a node answered that it does not lead.
func notController(resp kmsg.Response) bool {
	var code int16
	switch r := resp.(type) {
	case *kmsg.EnvelopeResponse:
		code = r.ErrorCode
	case *kmsg.BrokerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		code = r.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = r.ErrorCode
	case *kmsg.AlterPartitionResponse:
		code = r.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		code = r.ErrorCode
	}
	return protocol.Error(code) == protocol.ErrNotController
}
