package memlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Config is what a Log is made from.
type Config struct {
	NodeID       protocol.NodeID
	StateMachine raftlog.StateMachine
	Snapshots    raftlog.SnapshotStore // nil: TakeSnapshot does nothing
	FirstEntry   func(protocol.ControllerEpoch) []byte
	// Disk is what survives the log; a new one if nil.
	Disk *Disk
	// Follow has Run leave the leadership to somebody else, until Lead.
	Follow bool
}

// Log is a raftlog.Log in memory. Until Hold each proposal is committed at once.
type Log struct {
	cfg  Config
	disk *Disk
	step sync.Mutex // held while the state machine is called; before mu

	seat
	// Guarded by mu, too.
	held     bool
	applied  uint64
	inFlight *proposal // appended, not committed
}

var _ raftlog.Log = (*Log)(nil)

// New returns a log that does nothing before Run.
func New(cfg Config) *Log {
	if cfg.Disk == nil {
		cfg.Disk = &Disk{}
	}
	return &Log{cfg: cfg, disk: cfg.Disk, seat: newSeat()}
}

// Run restores the newest snapshot, leads, and waits for the end.
func (l *Log) Run(ctx context.Context) error {
	l.mu.Lock()
	if l.running || l.err != nil {
		l.mu.Unlock()
		return errors.New("memlog: Run on a log that has run")
	}
	l.running = true
	l.mu.Unlock()
	if err := l.restore(); err != nil {
		return err
	}
	if !l.cfg.Follow {
		l.Lead()
	}
	select {
	case <-ctx.Done():
		l.drop(protocol.NoNode)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = false
		return nil
	case <-l.dead:
		l.drop(protocol.NoNode)
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	}
}

func (l *Log) restore() error {
	l.step.Lock()
	defer l.step.Unlock()
	applied, err := restore(&l.cfg)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied = applied
	return nil
}

// Propose appends one entry; see raftlog.Log.
func (l *Log) Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (int64, error) {
	if err := l.claim(ctx, data); err != nil {
		return raftlog.Skipped, err
	}
	l.step.Lock()
	l.mu.Lock()
	ok := l.leadsLocked(epoch) && ctx.Err() == nil && l.err == nil
	held := l.held
	l.mu.Unlock()
	if !ok {
		l.step.Unlock()
		return raftlog.Skipped, l.refuse(epoch)
	}
	p := &proposal{entry: l.disk.append(bytes.Clone(data)), answer: make(chan answer, 1)}
	l.mu.Lock()
	l.inFlight = p
	l.mu.Unlock()
	if !held {
		l.commitLocked()
	}
	l.step.Unlock()
	return p.await(ctx)
}

// commitLocked applies all entries that are not applied, answers the proposer
// of the one in flight, and returns the last one's offset. l.step is held.
func (l *Log) commitLocked() (offset int64, ok bool) {
	l.mu.Lock()
	applied, failed := l.applied, l.err != nil
	l.mu.Unlock()
	if failed {
		return raftlog.Skipped, false
	}
	l.disk.mu.Lock()
	var todo []raftlog.Entry
	for _, e := range l.disk.entries {
		if e.Index > applied {
			e.Data = bytes.Clone(e.Data)
			todo = append(todo, e)
		}
	}
	l.disk.mu.Unlock()
	for _, e := range todo {
		offsets, err := l.cfg.StateMachine.Apply([]raftlog.Entry{e})
		if err == nil && len(offsets) != 1 {
			err = fmt.Errorf("%d answers for one entry", len(offsets))
		}
		if err != nil {
			l.fail(fmt.Errorf("apply entry %d: %w", e.Index, err))
			return raftlog.Skipped, false
		}
		offset = offsets[0]
		l.mu.Lock()
		l.applied = e.Index
		p := l.inFlight
		if p != nil && p.entry.Index == e.Index {
			l.inFlight = nil
		} else {
			p = nil
		}
		l.mu.Unlock()
		if p != nil {
			l.settle(p, answer{offset: offset})
		}
	}
	return offset, true
}

func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failLocked(err) {
		l.answerUnknownLocked()
	}
}

func (l *Log) answerUnknownLocked() {
	if l.inFlight != nil {
		l.inFlight.tell(answer{offset: raftlog.Skipped, err: raftlog.ErrUnknownOutcome})
	}
}

// Status reports this node, which has everything.
func (l *Log) Status() raftlog.Status {
	cur, _ := l.Leadership()
	l.disk.mu.Lock()
	last := l.disk.last
	l.disk.mu.Unlock()
	l.mu.Lock()
	running := l.running
	l.mu.Unlock()
	p := raftlog.Peer{ID: l.cfg.NodeID, LastFetchMs: -1, CaughtUpMs: -1}
	if running {
		now := time.Now().UnixMilli()
		p.AckedIndex, p.LastFetchMs, p.CaughtUpMs = last, now, now
	}
	return raftlog.Status{Leadership: cur, LastIndex: p.AckedIndex, Voters: []raftlog.Peer{p}}
}

// TakeSnapshot writes a snapshot of what is applied and drops the entries before it.
func (l *Log) TakeSnapshot(ctx context.Context) error {
	l.step.Lock()
	defer l.step.Unlock()
	l.mu.Lock()
	applied := l.applied
	l.mu.Unlock()
	return takeSnapshot(ctx, &l.cfg, applied)
}
