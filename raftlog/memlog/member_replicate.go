package memlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

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
