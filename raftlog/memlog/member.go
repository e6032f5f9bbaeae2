package memlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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
	turn   chan struct{} // size 1: the one proposal on its way
	dead   chan struct{}
	step   sync.Mutex // held while the state machine is called; before mu

	mu       sync.Mutex
	running  bool
	err      error
	cur      raftlog.Leadership
	changed  chan struct{}
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
	return &Member{
		cfg: cfg, voters: voters, disk: cfg.Disk,
		turn: make(chan struct{}, 1), dead: make(chan struct{}),
		cur:     raftlog.Leadership{Leader: protocol.NoNode, Offset: raftlog.Skipped},
		changed: make(chan struct{}),
	}
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
	if len(data) > raftlog.MaxEntryBytes {
		return raftlog.Skipped, protocol.ErrRecordListTooLarge
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return raftlog.Skipped, fmt.Errorf("%w: %w", protocol.ErrNotController, ctx.Err())
	case <-m.dead:
		return raftlog.Skipped, protocol.ErrNotController
	}
	p := &proposal{entry: raftlog.Entry{Data: bytes.Clone(data)}, answer: make(chan answer, 1)}
	m.mu.Lock()
	if !m.running || !m.cur.Leading || m.cur.Epoch != epoch || ctx.Err() != nil {
		m.mu.Unlock()
		<-m.turn
		return raftlog.Skipped, fmt.Errorf("propose in epoch %d: %w", epoch, protocol.ErrNotController)
	}
	m.waiting = p
	m.mu.Unlock()
	select {
	case a := <-p.answer:
		return a.offset, a.err
	case <-ctx.Done():
		// Its turn ends when its fate is known.
		return raftlog.Skipped, fmt.Errorf("%w: %w", raftlog.ErrUnknownOutcome, ctx.Err())
	}
}

// Waiting tells whether a proposal waits for Append.
func (m *Member) Waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting != nil
}

// Leads tells whether this member was elected in the term that it knows, be it
// in office already or not.
func (m *Member) Leads() bool { return m.leads }

// Term is the term that this member knows.
func (m *Member) Term() uint64 {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.term
}

// Has tells whether the log on disk holds an entry, be it in a snapshot.
func (d *Disk) Has(index, term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if index <= d.base {
		return true
	}
	e, ok := d.atLocked(index)
	return ok && e.Term == term
}

func (d *Disk) atLocked(index uint64) (raftlog.Entry, bool) {
	if index <= d.base || index > d.base+uint64(len(d.entries)) {
		return raftlog.Entry{}, false
	}
	return d.entries[index-d.base-1], true
}

// end is the index and term of the last entry.
func (d *Disk) end() (index, term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.entries); n > 0 {
		return d.entries[n-1].Index, d.entries[n-1].Term
	}
	return d.base, d.baseTerm
}

// Elect stands for election in a new term and returns whether this member leads
// then: voters that it reaches give their vote once per term, and to nobody
// whose log ends before their own.
func (m *Member) Elect(reached ...*Member) bool {
	m.disk.mu.Lock()
	m.disk.term++
	term := m.disk.term
	m.disk.mu.Unlock()
	m.follow(protocol.NoNode)
	index, last := m.disk.end()
	votes := 1
	for _, v := range reached {
		if !v.observe(term) {
			continue // it has voted in this term, or in a later one
		}
		if i, t := v.disk.end(); last > t || last == t && index >= i {
			votes++
		}
	}
	if 2*votes <= m.voters {
		return false
	}
	m.leads, m.match = true, make(map[protocol.NodeID]uint64)
	epoch := protocol.ControllerEpoch(term)
	m.first = m.disk.append(m.cfg.FirstEntry(epoch)).Index
	if brokenOffice {
		m.publish(raftlog.Leadership{Leading: true, Epoch: epoch, Leader: m.cfg.NodeID, Offset: 0})
	}
	m.advanceCommit()
	return true
}

// observe takes note of a term that somebody else has begun, and returns whether
// it is news.
func (m *Member) observe(term uint64) bool {
	m.disk.mu.Lock()
	news := term > m.disk.term
	m.disk.term = max(m.disk.term, term)
	m.disk.mu.Unlock()
	if news {
		m.follow(protocol.NoNode)
	}
	return news
}

// follow ends a leadership, if there is one, and publishes who leads now. Of a
// proposal in flight nobody knows what becomes of it.
func (m *Member) follow(leader protocol.NodeID) {
	m.leads = false
	term := m.Term()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishLocked(raftlog.Leadership{Epoch: protocol.ControllerEpoch(term), Leader: leader, Offset: raftlog.Skipped})
	m.settleLocked(&m.inFlight, answer{offset: raftlog.Skipped, err: raftlog.ErrUnknownOutcome})
}

// StepDown has a leader give up, or a follower forget its leader: it has lost
// touch.
func (m *Member) StepDown() { m.follow(protocol.NoNode) }

// Append takes the proposal that waits into the log, or refuses it where this
// member does not lead.
func (m *Member) Append() {
	m.mu.Lock()
	p := m.waiting
	if p == nil || m.err != nil || !m.running {
		m.mu.Unlock()
		return
	}
	if !m.leads {
		m.settleLocked(&m.waiting, answer{offset: raftlog.Skipped, err: protocol.ErrNotController})
		m.mu.Unlock()
		return
	}
	m.waiting, m.inFlight = nil, p
	m.mu.Unlock()
	p.entry = m.disk.append(p.entry.Data)
	m.advanceCommit()
	if brokenCommit {
		m.advance(p.entry.Index)
	}
}

// Replicate has another member hear from this leader, and get at most so many
// entries. Heard says that the leader gets the answer.
func (m *Member) Replicate(to *Member, most int, heard bool) {
	term := m.Term()
	if !m.leads {
		return
	}
	if their := to.Term(); their > term {
		if heard {
			m.observe(their)
		}
		return
	}
	to.observe(term)
	to.follow(m.cfg.NodeID)
	synced, err := m.copyTo(to, most)
	if err != nil {
		to.fail(err)
		return
	}
	to.advance(min(m.commit, synced))
	if heard {
		m.match[to.cfg.NodeID] = max(m.match[to.cfg.NodeID], synced)
		m.advanceCommit()
	}
}

// copyTo copies entries that the other one lacks, after a snapshot where they
// are gone here, and returns up to where the two logs are the same.
func (m *Member) copyTo(to *Member, most int) (uint64, error) {
	if !to.disk.Has(m.disk.base, m.disk.baseTerm) {
		if err := m.install(to); err != nil {
			return 0, err
		}
	}
	from, dst := m.disk, to.disk
	from.mu.Lock()
	defer from.mu.Unlock()
	dst.mu.Lock()
	defer dst.mu.Unlock()
	at := max(from.base, dst.base, m.match[to.cfg.NodeID]) // up to there they are the same
	for {
		ours, ok := from.atLocked(at + 1)
		theirs, has := dst.atLocked(at + 1)
		if !ok || !has || ours.Term != theirs.Term {
			break
		}
		at++
	}
	for ; most > 0; most-- {
		e, ok := from.atLocked(at + 1)
		if !ok {
			break
		}
		if at+1 <= to.commit {
			return 0, fmt.Errorf("memlog: entry %d of term %d is to replace a committed one", e.Index, e.Term)
		}
		e.Data = bytes.Clone(e.Data)
		dst.entries = append(dst.entries[:at-dst.base], e)
		dst.last = e.Index
		at++
	}
	return at, nil
}

// install brings the newest snapshot to the other one.
func (m *Member) install(to *Member) (err error) {
	metas, err := m.cfg.Snapshots.List()
	if err != nil {
		return err
	}
	meta, src, err := m.cfg.Snapshots.Open(metas[0].ID)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	sink, err := to.cfg.Snapshots.Create(meta)
	if err != nil {
		return err
	}
	var all bytes.Buffer
	if _, err := all.ReadFrom(src); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if _, err := sink.Write(all.Bytes()); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	to.step.Lock()
	defer to.step.Unlock()
	if err := to.cfg.StateMachine.Restore(meta, &all); err != nil {
		return err
	}
	to.disk.mu.Lock()
	to.disk.entries = slices.DeleteFunc(to.disk.entries, func(raftlog.Entry) bool { return true })
	to.disk.last = meta.Index
	to.disk.mu.Unlock()
	to.disk.begin(meta.Index, meta.Term)
	to.commit, to.applied = meta.Index, meta.Index
	return nil
}

// advanceCommit commits what a majority has, from the leader's own term on.
func (m *Member) advanceCommit() {
	if !m.leads {
		return
	}
	last, _ := m.disk.end()
	for n := last; n > m.commit && n >= m.first; n-- {
		have := 1
		for _, index := range m.match {
			if index >= n {
				have++
			}
		}
		if 2*have > m.voters {
			m.advance(n)
			return
		}
	}
}

// advance applies what is committed.
func (m *Member) advance(commit uint64) {
	m.commit = max(m.commit, commit)
	m.step.Lock()
	defer m.step.Unlock()
	for m.applied < m.commit {
		m.mu.Lock()
		stop := m.err != nil || !m.running
		m.mu.Unlock()
		m.disk.mu.Lock()
		e, ok := m.disk.atLocked(m.applied + 1)
		m.disk.mu.Unlock()
		if stop || !ok {
			return
		}
		e.Data = bytes.Clone(e.Data)
		offsets, err := m.cfg.StateMachine.Apply([]raftlog.Entry{e})
		if err == nil && len(offsets) != 1 {
			err = fmt.Errorf("%d answers for one entry", len(offsets))
		}
		if err == nil && m.leads && e.Index == m.first && offsets[0] == raftlog.Skipped {
			err = fmt.Errorf("the state machine skipped the first entry of epoch %d", e.Term)
		}
		if err != nil {
			m.fail(fmt.Errorf("apply entry %d: %w", e.Index, err))
			return
		}
		m.applied = e.Index
		m.mu.Lock()
		if p := m.inFlight; p != nil && p.entry.Index == e.Index {
			m.settleLocked(&m.inFlight, answer{offset: offsets[0]})
		}
		if m.leads && e.Index == m.first {
			m.publishLocked(raftlog.Leadership{
				Leading: true, Epoch: protocol.ControllerEpoch(e.Term), Leader: m.cfg.NodeID, Offset: offsets[0],
			})
		}
		m.mu.Unlock()
	}
}

// settleLocked tells a proposer its entry's fate, and lets the next one have a
// turn.
func (m *Member) settleLocked(p **proposal, a answer) {
	if *p == nil {
		return
	}
	select {
	case (*p).answer <- a:
	default:
	}
	*p = nil
	<-m.turn
}

func (m *Member) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		close(m.dead)
	}
}

// Leadership returns the latest state and a channel closed at the next change.
func (m *Member) Leadership() (raftlog.Leadership, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cur, m.changed
}

func (m *Member) publish(to raftlog.Leadership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishLocked(to)
}

func (m *Member) publishLocked(to raftlog.Leadership) {
	if to == m.cur {
		return
	}
	m.cur = to
	close(m.changed)
	m.changed = make(chan struct{})
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
