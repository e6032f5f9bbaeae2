package memlog

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Member is one of several logs that are one. It is Raft without a clock and
// without a network: when somebody stands for election, whom it reaches, and
// what gets through to whom are steps that a test takes.
//
//	leader.Elect(b, c)              // a new term, if b and c make a majority with it
//	leader.Append()                 // takes the proposal that waits into its log
//	leader.Replicate(b, all, true)  // b has it, and the leader hears so: committed
//	leader.Replicate(c, 0, true)    // c hears who leads and what is committed
//	leader.StepDown()               // it lost touch with the majority
//
// What is committed is applied at once, by whoever takes the step. Steps are
// taken by one goroutine; Propose, Leadership and Status are anybody's.
//
// A proposal waits between two steps before it is appended, as it waits in a
// queue of the library: the term may be another one by then, and its stamp old.
type Member struct {
	cfg    Config
	voters int // their number, this one included
	disk   *Disk
	step   sync.Mutex // held while the state machine is called; before mu

	seat
	// Guarded by mu, too.
	waiting  *proposal // not appended yet
	inFlight *proposal // appended, not known to be committed

	// Of whoever takes the steps.
	leads           bool   // in the disk's term, in office or not yet
	first           uint64 // index of its first entry there
	commit, applied uint64
	match           map[protocol.NodeID]uint64 // what others are known to have
}

var _ raftlog.Log = (*Member)(nil)

// NewMember returns one log of a quorum. It does nothing before Run.
func NewMember(cfg Config, voters int) *Member {
	if cfg.Disk == nil {
		cfg.Disk = &Disk{}
	}
	return &Member{cfg: cfg, voters: voters, disk: cfg.Disk, seat: newSeat()}
}

// Run restores the newest snapshot and waits for the end.
func (m *Member) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-m.dead:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = false
	m.publishLocked(raftlog.Leadership{Epoch: m.cur.Epoch, Leader: protocol.NoNode, Offset: raftlog.Skipped})
	m.settleLocked(&m.inFlight, answer{offset: raftlog.Skipped, err: raftlog.ErrUnknownOutcome})
	m.settleLocked(&m.waiting, answer{offset: raftlog.Skipped, err: protocol.ErrNotController})
	return m.err
}

func (m *Member) begin() error {
	m.step.Lock()
	defer m.step.Unlock()
	m.mu.Lock()
	ran := m.running || m.err != nil
	m.mu.Unlock()
	if ran {
		return errors.New("memlog: Run on a log that has run")
	}
	index, err := restore(&m.cfg)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commit, m.applied, m.running = index, index, true
	return nil
}

// Propose has one entry appended at the next Append; see raftlog.Log.
func (m *Member) Propose(ctx context.Context, epoch protocol.ControllerEpoch, data []byte) (int64, error) {
	if err := m.claim(ctx, data); err != nil {
		return raftlog.Skipped, err
	}
	p := &proposal{entry: raftlog.Entry{Data: bytes.Clone(data)}, answer: make(chan answer, 1)}
	m.mu.Lock()
	if !m.leadsLocked(epoch) || ctx.Err() != nil {
		m.mu.Unlock()
		return raftlog.Skipped, m.refuse(epoch)
	}
	m.waiting = p
	m.mu.Unlock()
	return p.await(ctx)
}

// Waiting tells whether a proposal waits for Append.
func (m *Member) Waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting != nil
}

// settleLocked settles a proposal, if there is one, and forgets it.
func (m *Member) settleLocked(p **proposal, a answer) {
	if *p == nil {
		return
	}
	m.settle(*p, a)
	*p = nil
}

func (m *Member) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failLocked(err)
}

// Status reports this member alone.
func (m *Member) Status() raftlog.Status {
	cur, _ := m.Leadership()
	last, _ := m.disk.end()
	now := time.Now().UnixMilli()
	return raftlog.Status{Leadership: cur, LastIndex: last, Voters: []raftlog.Peer{
		{ID: m.cfg.NodeID, AckedIndex: last, LastFetchMs: now, CaughtUpMs: now},
	}}
}

// TakeSnapshot writes a snapshot of what is applied and drops the entries before it.
func (m *Member) TakeSnapshot(ctx context.Context) error {
	m.step.Lock()
	defer m.step.Unlock()
	return takeSnapshot(ctx, &m.cfg, m.applied)
}
