package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// Engine is a Log over hashicorp/raft.
type Engine struct {
	cfg    Config
	log    zerolog.Logger
	fail   *failure
	logs   *logStore
	stable *stableStore
	snaps  *snapshotStore
	pins   *pins
	voters *voters
	own    raft.ServerID // under which this node is a member, if it is one
	store  protocol.UUID // of raft.db
	office *office
	acks   acks

	applied uint64 // last entry that the state machine has; between sessions

	turn    chan struct{} // size 1: whoever put something in has the one entry in flight
	session atomic.Pointer[session]
	hurried atomic.Int64 // elections that evidence started

	membersMu     sync.Mutex
	membersChange chan struct{} // closed and replaced when Raft's membership was changed here

	mu    sync.Mutex
	state int // engineOpen, engineRunning or engineClosed
}

const (
	engineOpen = iota
	engineRunning
	engineClosed
)

var _ Log = (*Engine)(nil)

// Open opens Raft's store in the metadata log's directory, makes it where
// there is none, and checks and repairs it. It starts nothing; Run does.
func Open(cfg Config) (*Engine, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	db, err := openBolt(cfg.Dir)
	if err != nil {
		return nil, err
	}
	e, err := openOver(cfg, db)
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%s: %w", cfg.Dir, err)
	}
	return e, nil
}

func openOver(cfg Config, db database) (*Engine, error) {
	cfg.Logger = cfg.Logger.With().Str("component", "raftlog").Logger()
	e := &Engine{
		cfg:    cfg,
		log:    cfg.Logger,
		fail:   newFailure(),
		office: newOffice(),
		voters: &voters{configured: cfg.Voters, log: cfg.LogVoters},
		turn:   make(chan struct{}, 1),

		membersChange: make(chan struct{}),
	}
	e.logs = newLogStore(db, cfg.StoreTimeout, e.fail)
	e.snaps = &snapshotStore{store: cfg.Snapshots, fail: e.fail}
	var err error
	if e.stable, err = openStableStore(e.logs); err != nil {
		return nil, err
	}
	if e.own, err = openServer(&e.cfg, e.logs); err != nil {
		return nil, err
	}
	if e.store, err = openStoreID(e.logs); err != nil {
		return nil, err
	}
	if err := bootstrap(&e.cfg, e.logs, e.stable, e.snaps); err != nil {
		return nil, err
	}
	if err := e.repair(); err != nil {
		return nil, err
	}
	if e.pins, err = openPins(e.logs, slices.Concat(cfg.Voters, e.voters.list())); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Engine) repair() error {
	repaired, err := repairLog(e.logs, e.snaps)
	if repaired {
		e.log.Warn().Msg("emptied a Raft log that contradicts its snapshot")
	}
	if err != nil {
		return err
	}
	return checkConnected(e.logs, e.snaps)
}

// Run starts Raft and returns nil once ctx is done and everything has ended,
// the store closed. It returns an error where the node can not go on; then it
// may leave a goroutine behind that hangs in a write to the disk, and the
// process must end. Run can be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	if e.state != engineOpen {
		e.mu.Unlock()
		return errors.New("raftlog: Run on an engine that has run or is closed")
	}
	e.state = engineRunning
	e.mu.Unlock()
	err := e.sessions(ctx)
	e.mu.Lock()
	e.state = engineClosed
	e.mu.Unlock()
	if cerr := e.logs.close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", boltFile, cerr)
	}
	return err
}

// sessions runs Raft again where a snapshot loop had to be repaired.
func (e *Engine) sessions(ctx context.Context) error {
	for {
		err := e.runSession(ctx)
		switch {
		case errors.Is(err, errSnapshotLoop):
			e.log.Warn().Msg("the same snapshot came again and again, restarting Raft")
		case errors.Is(err, errTransfer):
			e.log.Warn().Err(err).Msg("restarting Raft")
			continue
		default:
			return err
		}
		if err := e.repair(); err != nil {
			return err
		}
	}
}

// Close closes an engine that is not to run.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != engineOpen {
		return nil
	}
	e.state = engineClosed
	return e.logs.close()
}

// Accept takes a connection of which Preface has been read and nothing else. It
// returns once the connection is Raft's, or refused and closed, after
// prefaceTimeout at the latest: call it on the connection's own goroutine.
func (e *Engine) Accept(conn net.Conn) {
	if s := e.session.Load(); s != nil {
		s.streams.take(conn)
		return
	}
	_ = conn.Close()
}

// Leadership returns the latest state and a channel closed at the next change.
func (e *Engine) Leadership() (Leadership, <-chan struct{}) { return e.office.current() }

// Told takes what a node that is no member, and follows the log as observers do, has
// learned of the leader; NoNode where it knows none. Of itself it knows better.
func (e *Engine) Told(leader protocol.NodeID, epoch protocol.ControllerEpoch) {
	if leader == e.cfg.NodeID {
		leader = protocol.NoNode
	}
	e.office.tell(leader, epoch)
}

// ElectionsByEvidence is how many elections this node has started because the
// leader's process was gone.
func (e *Engine) ElectionsByEvidence() int64 { return e.hurried.Load() }

// HasLeader tells whether Raft itself knows a leader: then its log comes from there.
func (e *Engine) HasLeader() bool { return e.office.elected().Leader != protocol.NoNode }
