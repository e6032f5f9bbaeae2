package raftlog

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// Depose has another node be the leader of the next term, as a peer's append does.
func (e *Engine) Depose(leader raft.ServerID) {
	s := e.session.Load()
	s.trans.inject(&raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader), Addr: []byte(leader)},
		Term:      s.raft.CurrentTerm() + 1,
	})
}

// Lead has this node stand for election at once.
func (e *Engine) Lead() {
	e.session.Load().trans.inject(&raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}})
}

// HandTo has a leader hand over to a voter, whether it lives or not.
func (e *Engine) HandTo(id protocol.NodeID) {
	s := e.session.Load()
	i := slices.IndexFunc(s.servers(), func(m raft.Server) bool { return peerOf(m.ID).Node == id })
	s.handTo(s.servers()[i])
}

// AwaitReached waits until the detector has reached a leader's listener.
func (e *Engine) AwaitReached(t *testing.T, leader protocol.NodeID) {
	t.Helper()
	d := e.session.Load().detect
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		d.mu.Lock()
		ok := slices.Contains(d.reached, leader)
		d.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("leader %d is not reached", leader)
}

// WrapDatabase has f stand before Bolt in engines opened by OpenWith.
func OpenWith(cfg Config, f func(Database) Database) (*Engine, error) {
	cfg.setDefaults()
	db, err := openBolt(cfg.Dir)
	if err != nil {
		return nil, err
	}
	e, err := openOver(cfg, f(db))
	if err != nil {
		_ = db.Close()
	}
	return e, err
}

// Database is what stands under the engine.
type Database = database

// RaftLog is an entry of the library's log.
type RaftLog = raft.Log

// ServerIDForTest is a node's id in Raft.
func ServerIDForTest(id protocol.NodeID) raft.ServerID { return serverID(id) }

// Abort ends an engine as a crash does: no hand-over, nothing settled.
func (e *Engine) Abort(err error) { e.fail.set(err) }

// Trailing has few entries stay behind a snapshot.
func Trailing(cfg Config, entries uint64) Config {
	cfg.trailing = entries
	return cfg
}

// Untold has the library tell followers nothing of commits unless there is
// another entry.
func Untold(cfg *Config) { cfg.untold = time.Hour }

// Prefill makes a store that has lived: a term, and these entries.
func Prefill(cfg Config, term uint64, entries []*RaftLog) error {
	cfg.setDefaults()
	db, err := openBolt(cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := db.Set([]byte(keyIdentity), []byte(cfg.identity())); err != nil {
		return err
	}
	if err := db.SetUint64([]byte(keyCurrentTerm), term); err != nil {
		return err
	}
	return db.StoreLogs(entries)
}

// Members is the quorum as it is in a snapshot and in a log's first entry.
func Members(cfg Config) []byte { return raft.EncodeConfiguration(cfg.membership()) }

// LogMembership is the type of the entry that holds it.
const LogMembership = raft.LogConfiguration
