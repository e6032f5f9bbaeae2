package raftlog

import (
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
