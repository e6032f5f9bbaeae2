package raftlog

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// pair connects a caller, node 1, to node 2's transport.
func pair(t *testing.T) (caller, server *transport) {
	a := newSide(t, 1, protocol.UUID{1}, "c", nil)
	b := newSide(t, 2, protocol.UUID{2}, "c", nil)
	a.listensAt(2, b)
	caller = newTransport(a.streams, rpcTimeout, zerolog.Nop(), &acks{})
	server = newTransport(b.streams, rpcTimeout, zerolog.Nop(), &acks{})
	go server.forward()
	t.Cleanup(func() {
		_ = caller.Close()
		_ = server.Close()
		server.streams.wait()
	})
	return caller, server
}

func header(id string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(id), Addr: []byte(id)}
}

// TestHeartbeatGoesThroughMainLoop is the workaround for #695.
func TestHeartbeatGoesThroughMainLoop(t *testing.T) {
	caller, server := pair(t)
	server.SetHeartbeatHandler(func(raft.RPC) {
		t.Error("a heartbeat was handled on a connection's goroutine")
	})
	answered := make(chan error, 1)
	go func() {
		var resp raft.AppendEntriesResponse
		req := &raft.AppendEntriesRequest{RPCHeader: header("1"), Term: 9}
		answered <- caller.AppendEntries("2", "2", req, &resp)
	}()
	rpc := <-server.Consumer()
	if req, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok || req.Term != 9 {
		t.Errorf("got %+v", rpc.Command)
	}
	rpc.Respond(&raft.AppendEntriesResponse{Term: 9, Success: true}, nil)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if got := caller.acks.in("2", 9); got.index != 0 || got.contact.IsZero() || !got.caughtUp.IsZero() {
		t.Errorf("a heartbeat acknowledged %+v", got)
	}
}

// TestNoPipeline is the workaround for #612.
func TestNoPipeline(t *testing.T) {
	caller, _ := pair(t)
	if _, err := caller.AppendEntriesPipeline("2", "2"); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("a pipeline: %v", err)
	}
}

func TestInject(t *testing.T) {
	_, server := pair(t)
	go server.inject(&raft.TimeoutNowRequest{})
	rpc := <-server.Consumer()
	if _, ok := rpc.Command.(*raft.TimeoutNowRequest); !ok {
		t.Errorf("got %+v", rpc.Command)
	}
	rpc.Respond(&raft.TimeoutNowResponse{}, nil) // must not block
	_ = server.Close()
	server.inject(&raft.TimeoutNowRequest{})
}

func TestScreen(t *testing.T) {
	members := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1"}}})
	for _, tt := range []struct {
		name string
		cmd  any
		ok   bool
	}{
		{"vote", &raft.RequestVoteRequest{}, true},
		{"heartbeat", &raft.AppendEntriesRequest{}, true},
		{"entries", &raft.AppendEntriesRequest{Entries: []*raft.Log{
			{Type: raft.LogCommand}, {Type: raft.LogNoop}, {Type: raft.LogBarrier}, {Type: raft.LogConfiguration, Data: members},
		}}, true},
		{"no entry", &raft.AppendEntriesRequest{Entries: []*raft.Log{nil}}, false},
		{"unknown type", &raft.AppendEntriesRequest{Entries: []*raft.Log{{Type: 77}}}, false},
		{"old type", &raft.AppendEntriesRequest{Entries: []*raft.Log{{Type: raft.LogRemovePeerDeprecated}}}, false},
		{"bad membership", &raft.AppendEntriesRequest{Entries: []*raft.Log{{Type: raft.LogConfiguration, Data: []byte{0xc1}}}}, false},
		{"no membership", &raft.AppendEntriesRequest{Entries: []*raft.Log{{Type: raft.LogConfiguration}}}, false},
		{"snapshot", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: members}, true},
		{"bad snapshot", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: []byte("x")}, false},
		{"old snapshot", &raft.InstallSnapshotRequest{Configuration: members}, false},
	} {
		if err := screen(tt.cmd); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestScreenedIsAnswered shows that what is refused does not reach Raft, and
// that the connection goes on.
func TestScreenedIsAnswered(t *testing.T) {
	caller, server := pair(t)
	bad := &raft.AppendEntriesRequest{RPCHeader: header("1"), Term: 1, Entries: []*raft.Log{{Type: 77}}}
	if err := caller.AppendEntries("2", "2", bad, &raft.AppendEntriesResponse{}); err == nil {
		t.Error("an unknown entry was taken")
	}
	go func() {
		rpc := <-server.Consumer()
		rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	}()
	var resp raft.RequestVoteResponse
	if err := caller.RequestVote("2", "2", &raft.RequestVoteRequest{RPCHeader: header("1")}, &resp); err != nil || !resp.Granted {
		t.Errorf("after it: %+v, %v", resp, err)
	}
}

func TestAcks(t *testing.T) {
	var a acks
	t0 := time.Unix(100, 0)
	step := func(term, index uint64, sent int64, last uint64, wantIndex uint64, wantCaughtUp int64) {
		t.Helper()
		a.note("2", term, index, t0.Add(time.Duration(sent)*time.Second), last)
		got := a.in("2", term)
		caughtUp := int64(-1)
		if !got.caughtUp.IsZero() {
			caughtUp = got.caughtUp.Unix() - 100
		}
		if got.index != wantIndex || caughtUp != wantCaughtUp {
			t.Errorf("term %d, index %d: acked %d, caught up at %d; want %d, %d", term, index, got.index, caughtUp, wantIndex, wantCaughtUp)
		}
	}
	step(1, 0, 1, 10, 0, -1)  // a heartbeat
	step(1, 5, 2, 10, 5, -1)  // behind
	step(1, 10, 3, 10, 10, 3) // everything
	step(1, 8, 4, 12, 10, 3)  // out of order
	step(1, 0, 5, 10, 10, 3)  // a heartbeat proves nothing
	step(2, 0, 6, 12, 0, 3)   // a new term: its log may differ
	step(2, 12, 7, 12, 12, 7)
	a.note("2", 1, 99, t0, 0) // of an earlier leadership
	if got := a.in("2", 2).index; got != 12 {
		t.Errorf("an old answer changed it to %d", got)
	}
	if got := a.in("2", 3).index; got != 0 {
		t.Errorf("acked %d in a term without answers", got)
	}
}

// TestCloseEndsHandlers shows that no goroutine of an accepted connection is
// left when the streams have ended.
func TestCloseEndsHandlers(t *testing.T) {
	caller, server := pair(t)
	conn, err := caller.streams.Dial("2", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	server.streams.wait()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if _, err := caller.streams.Dial("2", time.Second); err == nil {
		t.Error("a closed node took a connection")
	}
	_ = caller.Close()
	if _, err := caller.streams.Dial("2", time.Second); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial from a closed node: %v", err)
	}
}

// TestVoteOverFreshConnection: the peer has been restarted, and what was kept of its
// earlier life has ended.
func TestVoteOverFreshConnection(t *testing.T) {
	caller, server := pair(t)
	ask := func() error {
		answered := make(chan error, 1)
		go func() {
			var resp raft.RequestVoteResponse
			answered <- caller.RequestVote("2", "2", &raft.RequestVoteRequest{RPCHeader: header("1"), Term: 9}, &resp)
		}()
		for {
			select {
			case rpc := <-server.Consumer():
				rpc.Respond(&raft.RequestVoteResponse{Term: 9, Granted: true}, nil)
			case err := <-answered:
				return err
			}
		}
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	server.streams.mu.Lock()
	for c := range server.streams.conns {
		_ = c.Conn.Close()
	}
	server.streams.mu.Unlock()
	if err := ask(); err != nil {
		t.Error(err)
	}
}

// A peer that was away for long has its log as soon as it is back.
func TestFailureWaitsForThePeer(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(t *transport, leads *atomic.Bool)
	}{
		{"the peer answers", func(t *transport, _ *atomic.Bool) { t.acks.note("2", 5, 0, time.Now(), 0) }},
		{"another leads", func(_ *transport, leads *atomic.Bool) { leads.Store(false) }},
		{"the node stops", func(t *transport, _ *atomic.Bool) { close(t.closed) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var leads, done atomic.Bool
				leads.Store(true)
				trans := &transport{acks: &acks{}, closed: make(chan struct{})}
				trans.acks.note("2", 5, 0, time.Now(), 0)
				time.Sleep(time.Second)
				go func() {
					trans.awaitAnswer("2", 5, func(raft.ServerID, uint64) bool { return leads.Load() })
					done.Store(true)
				}()
				time.Sleep(time.Minute)
				if done.Load() {
					t.Error("the call came back without an answer")
				}
				test.end(trans, &leads)
				time.Sleep(awaitPause + time.Millisecond)
				if !done.Load() {
					t.Error("the call does not come back")
				}
			})
		})
	}
}

func TestHeartbeatIsTold(t *testing.T) {
	for _, test := range []struct {
		req  raft.AppendEntriesRequest
		want bool
	}{
		{raft.AppendEntriesRequest{Term: 5}, true},
		{raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 7, PrevLogTerm: 4}, false},
		{raft.AppendEntriesRequest{Term: 5, LeaderCommitIndex: 7}, false},
		{raft.AppendEntriesRequest{Term: 5, Entries: []*raft.Log{{Index: 1}}}, false},
	} {
		if got := heartbeat(&test.req); got != test.want {
			t.Errorf("%+v: %v", test.req, got)
		}
	}
}
