package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// outside is where clients are: no partition lies between them and a node.
const outside protocol.NodeID = 0

// network carries requests and answers, encoded, between connections. What is sent
// waits in outbox for the driver, which gives it a delay. Over a link that is cut
// nothing gets: it waits for the link to heal, as TCP would send it again then.
type network struct {
	w *world

	mu     sync.Mutex
	outbox []*message
	lastID uint64
	conns  map[*conn]struct{}
	closed bool

	// The driver's.
	cut    map[[2]protocol.NodeID]bool // from, to
	paused map[protocol.NodeID]bool    // nothing leaves it or reaches it
	held   []*message
	// gate, where there is one, keeps what it says yes to when it arrives.
	gate  func(m *message) bool
	gated []*message
}

// message is a request, its answer, or the end of a connection.
type message struct {
	conn     *conn
	from, to protocol.NodeID
	kind     string // "request", "answer", "close", "reset"
	key      int16
	version  int16
	body     []byte
	call     *call
}

// call is a request that waits for its answer.
type call struct {
	done chan []byte // size 1: who asked may have gone
}

// conn is a connection from one node to the listener of another. It is a Conn of
// controllerclient, fetcher and follower.
type conn struct {
	net      *network
	from, to *node // from is nil for clients
	life     int   // of to
	kind     protocol.ListenerKind
	server   *server.Conn
	ctx      context.Context // of the server's side
	end      context.CancelFunc

	broken chan struct{} // closed when it is of no further use to who dialled
	once   sync.Once

	// The driver's: when the last thing arrives that was sent there, and back.
	there, back time.Time
}

func (c *conn) fromID() protocol.NodeID {
	if c.from == nil {
		return outside
	}
	return c.from.id
}

var errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)

// address is where a node listens.
func address(id protocol.NodeID, kind protocol.ListenerKind) (host string, port uint16) {
	if kind == protocol.ControllerListener {
		return fmt.Sprintf("node%d", id), 9093
	}
	return fmt.Sprintf("node%d", id), 9092
}

func hostPort(id protocol.NodeID, kind protocol.ListenerKind) string {
	host, port := address(id, kind)
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// find is the listener at an address.
func (n *network) find(addr string) (*node, protocol.ListenerKind, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, err
	}
	id, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil || id < 1 || id > len(n.w.nodes) {
		return nil, 0, fmt.Errorf("dial %s: no such host", addr)
	}
	if port == "9093" {
		return n.w.nodes[id-1], protocol.ControllerListener, nil
	}
	return n.w.nodes[id-1], protocol.BrokerListener, nil
}

// dial connects at once, is refused where nobody listens, and hangs where no
// answer can come.
func (n *network) dial(ctx context.Context, from *node, addr string) (*conn, error) {
	to, kind, err := n.find(addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: n, from: from, to: to, kind: kind, broken: make(chan struct{})}
	if from != to && (n.severed(c.fromID(), to.id) || n.severed(to.id, c.fromID())) {
		<-ctx.Done()
		return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
	}
	if from != nil && from.dead() {
		return nil, errReset
	}
	life := to.listens(kind)
	if life == 0 {
		return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	c.life = life
	c.ctx, c.end = context.WithCancel(context.Background())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		c.end()
		return nil, errReset
	}
	n.lastID++
	c.server = &server.Conn{
		ID: n.lastID, Kind: kind, Listener: listenerName(kind), Principal: "User:ANONYMOUS",
		RemoteAddr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(c.fromID())), Port: 40000},
	}
	n.conns[c] = struct{}{}
	return c, nil
}

func listenerName(kind protocol.ListenerKind) string {
	if kind == protocol.ControllerListener {
		return "CONTROLLER"
	}
	return "PLAINTEXT"
}

// severed tells whether nothing gets from one node to another now.
func (n *network) severed(from, to protocol.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[[2]protocol.NodeID{from, to}] || n.paused[from] || n.paused[to]
}

func (n *network) send(m *message) {
	n.mu.Lock()
	n.outbox = append(n.outbox, m)
	n.mu.Unlock()
	n.w.ring()
}

// Request sends a request in the highest version that both sides know.
func (c *conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if api, ok := protocol.API(req.Key()); ok {
		req.SetVersion(min(api.Max, req.MaxVersion()))
	}
	select {
	case <-c.broken:
		return nil, errReset
	default:
	}
	m := &message{
		conn: c, from: c.fromID(), to: c.to.id, kind: "request", key: req.Key(), version: req.GetVersion(),
		body: req.AppendTo(nil), call: &call{done: make(chan []byte, 1)},
	}
	c.net.send(m)
	select {
	case body := <-m.call.done:
		resp := req.ResponseKind()
		resp.SetVersion(m.version)
		if err := resp.ReadFrom(body); err != nil {
			c.net.w.failf("the answer to %s v%d can not be read: %v", kmsg.NameForKey(m.key), m.version, err)
			return nil, err
		}
		return resp, nil
	case <-c.broken:
		return nil, errReset
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the connection here at once, and there when word has got there.
func (c *conn) Close() error {
	c.breakUp()
	c.net.send(&message{conn: c, from: c.fromID(), to: c.to.id, kind: "close"})
	return nil
}

func (c *conn) breakUp() { c.once.Do(func() { close(c.broken) }) }

func (c *conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// collect gives what was sent since the last step its delays. In which order
// goroutines sent it does not count.
func (n *network) collect() {
	n.mu.Lock()
	out := n.outbox
	n.outbox = nil
	n.mu.Unlock()
	slices.SortStableFunc(out, func(a, b *message) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.key, b.key), bytes.Compare(a.body, b.body))
	})
	for _, m := range out {
		n.dispatch(m)
	}
}

func (n *network) dispatch(m *message) {
	if m.from != m.to && n.severed(m.from, m.to) {
		n.held = append(n.held, m)
		return
	}
	// What one connection carries keeps its order.
	last := &m.conn.there
	if m.kind == "answer" || m.kind == "reset" {
		last = &m.conn.back
	}
	at := time.Now().Add(n.delay(m))
	if !at.After(*last) {
		at = last.Add(time.Nanosecond)
	}
	*last = at
	n.w.after(time.Until(at), "", func() { n.deliver(m) })
}

func (n *network) delay(m *message) time.Duration {
	switch {
	case m.from == m.to:
		return n.w.between(10*time.Microsecond, 100*time.Microsecond)
	case n.w.rng.IntN(100) < n.w.mix.slow:
		return n.w.between(time.Millisecond, 300*time.Millisecond)
	case n.w.rng.IntN(1000) < n.w.mix.stray:
		return n.w.between(time.Second, 8*time.Second) // longer than anybody waits for it
	}
	return n.w.between(200*time.Microsecond, 2*time.Millisecond)
}

// deliver lets a message arrive.
func (n *network) deliver(m *message) {
	if m.from != m.to && n.severed(m.from, m.to) {
		n.held = append(n.held, m)
		return
	}
	if n.gate != nil && n.gate(m) {
		n.gated = append(n.gated, m)
		return
	}
	c := m.conn
	switch m.kind {
	case "request":
		// Also where who sent it has given up: it is on its way all the same.
		if c.to.listens(c.kind) != c.life {
			n.forget(c)
			c.breakUp()
			return
		}
		n.w.tracef("%d → %d %s v%d, %d bytes", m.from, m.to, kmsg.NameForKey(m.key), m.version, len(m.body))
		c.to.serve(m)
	case "answer":
		if c.isBroken() {
			return
		}
		n.w.tracef("%d → %d answer %s, %d bytes", m.from, m.to, kmsg.NameForKey(m.key), len(m.body))
		m.call.done <- m.body
	case "close":
		n.forget(c)
	case "reset":
		c.breakUp()
	}
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
	c.end()
}

// died ends the connections of a node: whoever is at their other ends hears of it
// when word gets there.
func (n *network) died(id protocol.NodeID) {
	n.mu.Lock()
	var ended []*conn
	for c := range n.conns {
		if c.to.id == id || c.fromID() == id {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(ended, func(a, b *conn) int { return cmp.Compare(a.server.ID, b.server.ID) })
	for _, c := range ended {
		if c.fromID() == id {
			c.breakUp()
			if c.to.id != id {
				n.dispatch(&message{conn: c, from: id, to: c.to.id, kind: "close"})
				continue
			}
		}
		n.forget(c)
		if !c.isBroken() {
			n.dispatch(&message{conn: c, from: id, to: c.fromID(), kind: "reset"})
		}
	}
}

// reopen lets go what was held and can get through now.
func (n *network) reopen() {
	held := n.held
	n.held = nil
	for _, m := range held {
		n.dispatch(m)
	}
}

func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		c.breakUp()
		c.end()
	}
}

var errClosed = errors.New("the server ended the connection")

// encode is an answer's body as it goes over the wire.
func encode(a server.Answer, version int16) ([]byte, error) {
	switch {
	case a.Response != nil:
		a.Response.SetVersion(version)
		return a.Response.AppendTo(nil), nil
	case a.Parts != nil:
		var body []byte
		for _, p := range a.Parts {
			body = append(body, p.Bytes...)
			if p.Region == nil {
				continue
			}
			buf := make([]byte, p.Region.Size())
			_, err := p.Region.ReadAt(buf, 0)
			p.Region.Release()
			if err != nil {
				return nil, err
			}
			body = append(body, buf...)
		}
		return body, nil
	case a.Close != nil:
		return nil, a.Close
	}
	return nil, errClosed
}
