package memlog

import (
	"fmt"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// Hold has proposals wait from now on, appended but not committed, for Commit,
// Lose, Forget or Depose.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Release commits what waits, and each proposal from now on at once.
func (l *Log) Release() {
	l.mu.Lock()
	l.held = false
	l.mu.Unlock()
	l.Commit()
}

// Pending returns the data of the entry that is appended and not committed, or
// nil, whether its proposer still waits or not.
func (l *Log) Pending() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight == nil {
		return nil
	}
	return l.inFlight.entry.Data
}

// Commit commits and applies the pending entry, if there is one. After Depose
// it is the new leader that does so.
func (l *Log) Commit() {
	l.step.Lock()
	defer l.step.Unlock()
	l.commitLocked()
}

// Lose has the proposer of the pending entry learn that nobody knows what
// becomes of it. The entry stays for Commit or Forget.
func (l *Log) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answerUnknownLocked()
}

// Forget drops the pending entry: another leader's took its place. Its
// proposer, if still there, learns that nobody knows.
func (l *Log) Forget() {
	l.step.Lock()
	defer l.step.Unlock()
	l.mu.Lock()
	p := l.inFlight
	l.inFlight = nil
	l.mu.Unlock()
	if p == nil {
		return
	}
	l.disk.drop(p.entry.Index)
	l.settle(p, answer{offset: raftlog.Skipped, err: raftlog.ErrUnknownOutcome})
}

// Depose has another node lead in a new term; NoNode if nobody knows who. The
// proposer of a pending entry learns that nobody knows.
func (l *Log) Depose(leader protocol.NodeID) {
	l.disk.mu.Lock()
	l.disk.term++
	l.disk.mu.Unlock()
	l.drop(leader)
}

func (l *Log) drop(leader protocol.NodeID) {
	l.disk.mu.Lock()
	term := l.disk.term
	l.disk.mu.Unlock()
	l.publish(raftlog.Leadership{Epoch: protocol.ControllerEpoch(term), Leader: leader, Offset: raftlog.Skipped})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answerUnknownLocked()
}

// Lead has this node lead in a new term. A pending entry is committed first:
// it is in this node's log.
func (l *Log) Lead() {
	l.step.Lock()
	defer l.step.Unlock()
	l.commitLocked()
	l.disk.mu.Lock()
	l.disk.term++
	l.disk.last++ // Raft's own entry at the start of a term
	epoch := protocol.ControllerEpoch(l.disk.term)
	l.disk.mu.Unlock()
	l.publish(raftlog.Leadership{Epoch: epoch, Leader: protocol.NoNode, Offset: raftlog.Skipped})
	l.disk.append(l.cfg.FirstEntry(epoch))
	offset, ok := l.commitLocked()
	if !ok {
		return
	}
	if offset == raftlog.Skipped {
		l.fail(fmt.Errorf("the state machine skipped the first entry of epoch %d", epoch))
		return
	}
	l.publish(raftlog.Leadership{Leading: true, Epoch: epoch, Leader: l.cfg.NodeID, Offset: offset})
}

// Append has the current leader elsewhere commit an entry, and a pending one
// that has not been forgotten before it.
func (l *Log) Append(data []byte) {
	l.step.Lock()
	defer l.step.Unlock()
	l.disk.append(data)
	l.commitLocked()
}
