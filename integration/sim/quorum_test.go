package sim

import (
	"errors"
	"io"
	"time"

	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/raftlog/memlog"
)

// quorum is Raft's clock and network: the driver takes the steps of memlog's members.
type quorum struct {
	entries map[uint64]entry // by index, as the first that applied it
	heard   map[protocol.NodeID]map[protocol.NodeID]time.Time
	patient map[protocol.NodeID]time.Time // when it stands for election
	taking  map[*memlog.Member]bool       // an Append is on its way
}

// entry is what was applied at an index.
type entry struct {
	term   uint64
	crc    uint32
	offset int64
}

// lease is how long a leader leads without hearing from a majority.
const lease = 500 * time.Millisecond

func (w *world) startQuorum() {
	w.entries = map[uint64]entry{}
	w.heard = map[protocol.NodeID]map[protocol.NodeID]time.Time{}
	w.patient = map[protocol.NodeID]time.Time{}
	w.taking = map[*memlog.Member]bool{}
	for _, n := range w.controllers() {
		w.heard[n.id] = map[protocol.NodeID]time.Time{}
		w.patient[n.id] = time.Now().Add(w.between(100*time.Millisecond, 300*time.Millisecond))
	}
	w.after(time.Millisecond, "", w.tick)
}

// tick is heartbeats, leases and elections.
func (w *world) tick() {
	now := time.Now()
	for _, n := range w.controllers() {
		l := n.running()
		switch {
		case l == nil:
			w.patient[n.id] = now.Add(w.patience())
		case l.member.Leads():
			w.replicate(n, l)
			if reached := len(w.heardSince(n.id, now.Add(-lease))); 2*(reached+1) <= len(w.controllers()) {
				w.tracef("node %d has lost touch with the quorum", n.id)
				l.member.StepDown()
				w.patient[n.id] = now.Add(w.patience())
			}
		case now.After(w.patient[n.id]):
			w.elect(n)
		}
	}
	w.after(w.between(40*time.Millisecond, 60*time.Millisecond), "", w.tick)
}

func (w *world) patience() time.Duration { return w.between(time.Second, 2*time.Second) }

func (w *world) heardSince(id protocol.NodeID, since time.Time) (who []protocol.NodeID) {
	for other, at := range w.heard[id] {
		if at.After(since) {
			who = append(who, other)
		}
	}
	return who
}

// elect has a controller stand for election, where it reaches a majority.
func (w *world) elect(n *node) {
	l := n.running()
	if l == nil {
		return
	}
	w.patient[n.id] = time.Now().Add(w.patience())
	var reached []*memlog.Member
	for _, other := range w.controllers() {
		if o := other.running(); o != nil && other != n && !w.net.severed(n.id, other.id) && !w.net.severed(other.id, n.id) {
			reached = append(reached, o.member)
		}
	}
	if 2*(len(reached)+1) <= len(w.controllers()) || w.net.paused[n.id] {
		return // what a pre-vote finds out
	}
	won := l.member.Elect(reached...)
	w.tracef("node %d stands for election in term %d: %v", n.id, l.member.Term(), won)
	if won {
		w.check.offices++
		for _, other := range w.controllers() {
			w.heard[n.id][other.id] = time.Now()
		}
		delete(w.heard[n.id], n.id)
		w.replicate(n, l)
	}
}

// replicate sends to all, each at its own time.
func (w *world) replicate(n *node, l *life) {
	for _, other := range w.controllers() {
		if other != n {
			w.after(w.between(200*time.Microsecond, 3*time.Millisecond), "", func() { w.replicateTo(n, l, other) })
		}
	}
}

func (w *world) replicateTo(n *node, l *life, to *node) {
	o := to.running()
	if n.running() != l || o == nil || !l.member.Leads() || w.net.severed(n.id, to.id) {
		return
	}
	heard := !w.net.severed(to.id, n.id)
	before := l.member.Status().Leadership
	committed := w.check.committedOffset()
	w.patient[to.id] = time.Now().Add(w.patience())
	l.member.Replicate(o.member, 1+w.rng.IntN(8), heard)
	if heard {
		w.heard[n.id][to.id] = time.Now()
	}
	if w.check.committedOffset() > committed || l.member.Status().Leadership != before {
		w.replicate(n, l) // the others learn at once what is committed
	}
}

// collectProposals has what was proposed appended soon. That may be in another
// term, if there is an election before.
func (w *world) collectProposals() {
	for _, n := range w.controllers() {
		l := n.running()
		if l == nil || w.taking[l.member] || !l.member.Waiting() {
			continue
		}
		w.taking[l.member] = true
		d := w.between(50*time.Microsecond, 500*time.Microsecond)
		if w.rng.IntN(50) == 0 {
			d = w.between(time.Millisecond, 2*time.Second)
		}
		w.after(d, "", func() {
			delete(w.taking, l.member)
			if n.running() == l {
				l.member.Append()
				w.replicate(n, l)
			}
		})
	}
}

// machine is a node's state machine, with an eye on what is given to it.
type machine struct {
	*replay.Replayer
	n *node
}

// Apply checks that what is applied is committed, the same everywhere, and nothing
// where it was decided in another epoch (invariant 11).
func (m *machine) Apply(entries []raftlog.Entry) ([]int64, error) {
	w := m.n.w
	have := 0
	for _, c := range w.controllers() {
		if c.raft.Has(entries[0].Index, entries[0].Term) {
			have++
		}
	}
	b := batch.Batch(entries[0].Data)
	stamp, crc := uint64(b.LeaderEpoch()), b.CRC()
	before := m.Image()
	offsets, err := m.Replayer.Apply(entries)
	if err != nil {
		return nil, err
	}
	e, offset := entries[0], offsets[0]
	if 2*have <= len(w.controllers()) {
		w.failf("node %d applies entry %d of term %d, which %d of %d controllers have", m.n.id, e.Index, e.Term, have, len(w.controllers()))
	}
	if stamp != e.Term && (offset != raftlog.Skipped || m.Image() != before) {
		w.failf("invariant 11: node %d applies entry %d of term %d though it was decided in epoch %d", m.n.id, e.Index, e.Term, stamp)
	}
	got := entry{term: e.Term, crc: crc, offset: offset}
	if known, ok := w.entries[e.Index]; !ok {
		w.entries[e.Index] = got
		if offset == raftlog.Skipped {
			w.check.skipped++
		} else {
			w.check.committed(b, before)
		}
	} else if known != got {
		w.failf("node %d applies at index %d %+v, another applied %+v", m.n.id, e.Index, got, known)
	}
	return offsets, nil
}

// Restore checks nothing: the image that comes of it is compared as any other is.
func (m *machine) Restore(meta raftlog.SnapshotMeta, r io.Reader) error {
	m.n.w.check.restored++
	return m.Replayer.Restore(meta, r)
}

// snapshot has a node write one.
func (w *world) snapshot(n *node) {
	l := n.running()
	if l == nil {
		return
	}
	take := l.replayer.WriteSnapshot
	if l.member != nil {
		take = l.member.TakeSnapshot
	}
	if l.replayer.Image().Offset() < 0 {
		return
	}
	if err := take(l.ctx); err != nil && !errors.Is(err, replay.ErrBehind) && !errors.Is(err, replay.ErrOpenTransaction) {
		w.failf("node %d writes no snapshot: %v", n.id, err)
	}
}
