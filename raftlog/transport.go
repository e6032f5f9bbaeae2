package raftlog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// transport stands between Raft and its network transport.
//
//   - Heartbeats go through the main loop like every other RPC. The library's
//     fast path handles them on the connection's goroutine, where one with a
//     newer term changes term and state under a main loop that is just about to
//     stamp entries: two leaders in one term (#695). The Transport interface
//     allows to ignore the handler. The price: a heartbeat waits behind a
//     follower's fsync, so the leader's lease must outlast that.
//   - Raft's RPCs come out of a channel of our own, in which we can put some
//     ourselves: a lone voter hands itself a TimeoutNow and leads at once.
//   - A vote is asked for again over a fresh connection where the kept one had ended.
//   - A call that carries the log fails as late as the peer is back, so that the
//     library does not go on to pause for up to 10 s then.
//   - What a peer sends is screened for what the library would panic on.
//   - What a peer has acknowledged, and when, is noted: the library tells nobody.
type transport struct {
	*raft.NetworkTransport
	streams *streams
	rpcs    chan raft.RPC // size 0: the main loop takes each itself
	closed  chan struct{}
	once    sync.Once
	acks    *acks
	acked   func(raft.ServerID)       // told after each note of an ack; nil for nobody
	raft    atomic.Pointer[raft.Raft] // set once there is one
}

// maxPool is how many idle connections to a peer are kept.
const maxPool = 3

func newTransport(s *streams, timeout time.Duration, log zerolog.Logger, acks *acks) *transport {
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:  s,
			MaxPool: maxPool,
			// The pipeline can deadlock with one follower, for good (#612), and
			// gains nothing where round trips are short (#541).
			MaxRPCsInFlight: 1,
			Timeout:         timeout,
			Logger:          newRaftLogger(log),
		}),
		streams: s,
		rpcs:    make(chan raft.RPC),
		closed:  make(chan struct{}),
		acks:    acks,
	}
}

// forward carries RPCs from the network to Raft's main loop until Close.
func (t *transport) forward() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			err := screen(rpc.Command)
			if err == nil {
				err = t.entitled(rpc.Command)
			}
			if err != nil {
				rpc.Respond(nil, err)
				continue
			}
			select {
			case t.rpcs <- rpc:
			case <-t.closed:
				return
			}
		case <-t.closed:
			return
		}
	}
}

// entitled refuses to vote where this node knows of no members: it is none yet, and
// the library would vote for anybody.
func (t *transport) entitled(cmd any) error {
	switch cmd.(type) {
	case *raft.RequestVoteRequest, *raft.RequestPreVoteRequest, *raft.TimeoutNowRequest:
		if r := t.raft.Load(); r != nil && len(r.GetConfiguration().Configuration().Servers) == 0 {
			return errors.New("this node has no vote yet")
		}
	}
	return nil
}

// inject hands Raft an RPC of our own making. Its answer goes nowhere.
func (t *transport) inject(cmd any) {
	select {
	case t.rpcs <- raft.RPC{Command: cmd, RespChan: make(chan raft.RPCResponse, 1)}:
	case <-t.closed:
	}
}

// lastIndex is that of this node's log.
func (t *transport) lastIndex() uint64 {
	if r := t.raft.Load(); r != nil {
		return r.LastIndex()
	}
	return 0
}

// Consumer is where Raft takes its RPCs from.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// SetHeartbeatHandler ignores the fast path; see above.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries also carries heartbeats, which acknowledge nothing but life.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent, last := time.Now(), t.lastIndex()
	if err := t.NetworkTransport.AppendEntries(id, target, req, resp); err != nil {
		if !heartbeat(req) {
			t.awaitAnswer(id, req.Term, t.leads)
		}
		return err
	}
	var index uint64
	if resp.Success {
		index = req.PrevLogEntry
		if n := len(req.Entries); n > 0 {
			index = req.Entries[n-1].Index
		}
	}
	t.acks.note(id, req.Term, index, sent, last)
	if t.acked != nil && index > 0 {
		t.acked(id)
	}
	return nil
}

// heartbeat tells the library's heartbeats, which have neither entries nor a place
// in the log.
func heartbeat(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}

// awaitPause is how often awaitAnswer looks.
const awaitPause = 50 * time.Millisecond

// awaitAnswer holds a call back that has failed, until the peer answers another,
// or is not owed the log of this term any more. The library pauses before it calls
// again, for longer with each failure, up to 10 s; its heartbeats, which count
// their own failures, go out twice a second at least.
func (t *transport) awaitAnswer(id raft.ServerID, term uint64, leads func(raft.ServerID, uint64) bool) {
	failed := time.Now()
	ticker := time.NewTicker(awaitPause)
	defer ticker.Stop()
	for leads(id, term) && !t.acks.in(id, term).contact.After(failed) {
		select {
		case <-ticker.C:
		case <-t.closed:
			return
		}
	}
}

// leads tells whether this node leads a term and a peer belongs to it.
func (t *transport) leads(id raft.ServerID, term uint64) bool {
	r := t.raft.Load()
	return r != nil && r.State() == raft.Leader && r.CurrentTerm() == term &&
		slices.ContainsFunc(r.GetConfiguration().Configuration().Servers, func(s raft.Server) bool { return s.ID == id })
}

// RequestVote asks again where a kept connection turns out to be of an earlier life
// of the peer: the library would do so after an election timeout.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return overFresh(func() error { return t.NetworkTransport.RequestVote(id, target, req, resp) })
}

// RequestPreVote does likewise.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return overFresh(func() error { return t.NetworkTransport.RequestPreVote(id, target, req, resp) })
}

// overFresh makes a call, once more for each kept connection that may have ended.
// The call must do no harm if it is made twice.
func overFresh(call func() error) error {
	for range maxPool {
		err := call()
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return err
		}
	}
	return call()
}

// InstallSnapshot acknowledges everything that is in the snapshot.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	sent, last := time.Now(), t.lastIndex()
	if err := t.NetworkTransport.InstallSnapshot(id, target, req, resp, data); err != nil {
		t.awaitAnswer(id, req.Term, t.leads)
		return err
	}
	var index uint64
	if resp.Success {
		index = req.LastLogIndex
	}
	t.acks.note(id, req.Term, index, sent, last)
	return nil
}

// Close ends all connections, the RPCs on them, and forward.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.closed) })
	err := t.NetworkTransport.Close() // closes the streams
	t.CloseStreams()                  // empties the pool
	return err
}

// screen refuses what a peer of ours never sends, and what makes the library
// panic: entries of unknown types, memberships that do not decode.
func screen(cmd any) error {
	switch req := cmd.(type) {
	case *raft.AppendEntriesRequest:
		for i, e := range req.Entries {
			if e == nil {
				return fmt.Errorf("entry %d of %d is missing", i, len(req.Entries))
			}
			switch e.Type {
			case raft.LogCommand, raft.LogNoop, raft.LogBarrier:
			case raft.LogConfiguration:
				if _, err := decodeConfiguration(e.Data); err != nil {
					return fmt.Errorf("entry %d: %w", e.Index, err)
				}
			default:
				return fmt.Errorf("entry %d has unknown type %d", e.Index, e.Type)
			}
		}
	case *raft.InstallSnapshotRequest:
		if req.SnapshotVersion != raft.SnapshotVersionMax {
			return fmt.Errorf("unknown snapshot version %d", req.SnapshotVersion)
		}
		if _, err := decodeConfiguration(req.Configuration); err != nil {
			return err
		}
	}
	return nil
}

// decodeConfiguration is the library's, without its panic.
func decodeConfiguration(b []byte) (c raft.Configuration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("undecodable Raft membership of %d bytes: %v", len(b), r)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}
