package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// prefaceTimeout bounds how long an accepted connection may take for its preface.
const prefaceTimeout = 5 * time.Second

// streams is Raft's StreamLayer: connections that a listener hands over, and
// ones that it dials, each with the preface exchanged.
type streams struct {
	self    peerID
	own     raft.ServerID
	cluster string
	voters  *voters
	store   protocol.UUID
	member  func(raft.ServerID) (member, votes bool) // what a server is
	dial    func(ctx context.Context, endpoint string) (net.Conn, error)
	pins    *pins
	log     zerolog.Logger

	accepted chan net.Conn // size 0: Accept's caller waits for the library to take it
	closed   chan struct{}

	// ended is told, outside of mu, whose connection to us has ended while we
	// go on; nil for nobody. It must not block.
	ended func(protocol.NodeID)

	mu    sync.Mutex
	over  bool
	conns map[*stream]struct{}                   // open ones, either direction
	dials map[context.Context]context.CancelFunc // those in progress
	wg    sync.WaitGroup                         // accepted connections whose handler has not closed them
}

// stream is a connection that its streams knows of as long as it is open.
type stream struct {
	net.Conn
	owner   *streams
	inbound bool
	peer    protocol.NodeID // who speaks, once greeted, of an inbound one
	once    sync.Once
}

// Close is called by whoever handles the connection, once done with it.
func (c *stream) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.owner.mu.Lock()
		delete(c.owner.conns, c)
		over := c.owner.over
		c.owner.mu.Unlock()
		if !c.inbound {
			return
		}
		if c.peer != protocol.NoNode && !over && c.owner.ended != nil {
			c.owner.ended(c.peer)
		}
		c.owner.wg.Done()
	})
	return err
}

func newStreams(cfg *Config, own raft.ServerID, voters *voters, pins *pins) *streams {
	return &streams{
		self:     peerID{Node: cfg.NodeID, Directory: cfg.DirectoryID},
		own:      own,
		cluster:  cfg.ClusterID,
		voters:   voters,
		dial:     cfg.Dial,
		pins:     pins,
		log:      cfg.Logger,
		accepted: make(chan net.Conn),
		closed:   make(chan struct{}),
		conns:    make(map[*stream]struct{}),
		dials:    make(map[context.Context]context.CancelFunc),
	}
}

// track registers a connection; false where the streams are closed already.
func (s *streams) track(conn net.Conn, inbound bool) (*stream, bool) {
	c := &stream{Conn: conn, owner: s, inbound: inbound, peer: protocol.NoNode}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, false
	}
	s.conns[c] = struct{}{}
	if inbound {
		s.wg.Add(1)
	}
	return c, true
}

// take checks the preface of a connection and gives it to Raft. It runs on the
// goroutine of whoever accepted the connection, and returns once it is Raft's
// or closed.
func (s *streams) take(conn net.Conn) {
	c, ok := s.track(conn, true)
	if !ok {
		_ = conn.Close()
		return
	}
	who, err := s.greet(c)
	if err != nil {
		s.log.Warn().Err(err).Stringer("remote", conn.RemoteAddr()).Msg("refused a Raft connection")
		_ = c.Close()
		return
	}
	c.peer = who.Node
	select {
	case s.accepted <- c:
		s.log.Debug().Int32("peer", int32(who.Node)).Stringer("remote", conn.RemoteAddr()).Msg("accepted a Raft connection")
	case <-s.closed:
		_ = c.Close()
	}
}

// greet reads the caller's hello and answers it.
func (s *streams) greet(conn net.Conn) (peerID, error) {
	if err := conn.SetDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return peerID{}, err
	}
	h, err := readHello(conn)
	if err == nil {
		err = s.judge(h)
	}
	answer := welcome{Who: s.self, Store: s.store}
	if err != nil {
		answer.Refused, answer.Reason = true, err.Error()
	}
	if _, werr := conn.Write(answer.encode()); werr != nil && err == nil {
		err = fmt.Errorf("answer the Raft preface: %w", werr)
	}
	if err != nil {
		return h.Caller, err
	}
	return h.Caller, conn.SetDeadline(time.Time{})
}

// judge decides whether a caller may speak Raft with this node.
func (s *streams) judge(h hello) error {
	switch {
	case h.Cluster != s.cluster:
		return fmt.Errorf("%s is of cluster %q, %s of cluster %q", h.Caller, h.Cluster, s.self, s.cluster)
	case h.Want.Node != s.self.Node:
		return fmt.Errorf("%s looks for %s, but this is %s", h.Caller, h.Want, s.self)
	case h.Want.Directory != protocol.ZeroUUID && h.Want.Directory != s.self.Directory:
		return fmt.Errorf("%s looks for %s, but this is %s: a wiped or foreign disk may not take a voter's place",
			h.Caller, h.Want, s.self)
	case h.Caller.Node == s.self.Node:
		return fmt.Errorf("%s calls itself by this node's id", h.Caller)
	}
	switch _, known := s.voters.endpoint(peerID{Node: h.Caller.Node}); {
	case h.Caller.Directory == protocol.ZeroUUID:
		return fmt.Errorf("%s has no directory id", h.Caller)
	case h.ByDirectory && s.voters.dynamic():
		// It is known by its directory, so it can take nobody's place. One that this
		// node has not heard of must be let in, to be heard of: it may lead.
	case h.ByDirectory || !known:
		return fmt.Errorf("%s is not among the voters that %s knows", h.Caller, s.self)
	default:
		if err := s.pins.check(h.Caller); err != nil {
			return err
		}
	}
	return s.checkStore(h.server(), h.Store)
}

func (s *streams) checkStore(id raft.ServerID, store protocol.UUID) error {
	member, votes := s.member(id)
	return s.pins.checkStore(id, store, member, votes)
}

// Accept gives the library the next connection.
func (s *streams) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Dial connects to the node whose server address this is. It tells a process
// that refuses connections (ECONNREFUSED, wrapped) from one that refuses us.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	peer := peerOf(raft.ServerID(address))
	endpoint, ok := s.voters.endpoint(peer)
	if !ok {
		return nil, fmt.Errorf("no endpoint known for Raft server %q", address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, net.ErrClosed
	}
	s.dials[ctx] = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.dials, ctx)
		s.mu.Unlock()
	}()

	conn, err := s.dial(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", peer, err)
	}
	c, ok := s.track(conn, false)
	if !ok {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if err := s.introduce(ctx, c, peer); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s at %s: %w", peer, endpoint, err)
	}
	return c, nil
}

// introduce says hello and reads the answer.
func (s *streams) introduce(ctx context.Context, conn net.Conn, peer peerID) error {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	want := peer
	if want.Directory == protocol.ZeroUUID {
		want.Directory = s.pins.of(peer.Node)
	}
	h := hello{Cluster: s.cluster, Caller: s.self, Want: want, ByDirectory: peerOf(s.own).Directory != protocol.ZeroUUID, Store: s.store}
	if _, err := conn.Write(h.encode()); err != nil {
		return fmt.Errorf("send the Raft preface: %w", err)
	}
	w, err := readWelcome(conn)
	switch {
	case err != nil:
		return err
	case w.Refused:
		return errors.New("refused us: " + w.Reason)
	case w.Who.Node != peer.Node, peer.Directory != protocol.ZeroUUID && w.Who.Directory != peer.Directory:
		return fmt.Errorf("this is %s", w.Who)
	}
	if peer.Directory == protocol.ZeroUUID {
		if err := s.pins.check(w.Who); err != nil {
			return err
		}
	}
	if err := s.checkStore(peer.server(), w.Store); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// Close ends all connections and dials.
func (s *streams) Close() error {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil
	}
	s.over = true
	close(s.closed)
	for _, cancel := range s.dials {
		cancel()
	}
	open := make([]*stream, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		// Their handlers, which this wakes, close them once more.
		_ = c.Conn.Close()
	}
	return nil
}

// wait returns once every handler of an accepted connection has ended.
func (s *streams) wait() { s.wg.Wait() }

// Addr is this node's server address, which the library puts into its RPCs.
func (s *streams) Addr() net.Addr { return address(s.own) }

type address string

func (a address) Network() string { return "raft" }
func (a address) String() string  { return string(a) }
