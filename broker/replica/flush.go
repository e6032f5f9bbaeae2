package replica

import "fmt"

// With flush.messages a replica counts as having what it has synced. A leader's own
// end is bounded by unflushedFrom until whoever appended has called Flush; a follower
// calls FlushFollowed before it asks for more, as its fetch says how far it is.
// Whoever begins to lead with records that nobody waits for, a follower's or what
// a recovery found, flushes them first (Manager.change).

// flushDueLocked tells whether so much is unsynced that it must not count.
func (p *Partition) flushDueLocked() bool {
	unsynced := p.log.LEO() - p.log.FlushedTo()
	return unsynced > 0 && unsynced >= p.config.Log.FlushMessages && p.config.Log.FlushMessages > 0
}

// beginLeadingLocked bounds the end of a log that was not written by this leader.
func (p *Partition) beginLeadingLocked() {
	if p.flushDueLocked() {
		p.unflushedFrom, p.unflushedTo = p.log.FlushedTo(), p.log.LEO()
	}
}

// unflushed is the end of what must be synced before this leader counts it.
func (p *Partition) unflushed() (end int64, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unflushedTo, p.role == roleLeader && p.unflushedFrom != Never
}

// Flush syncs the log up to what was appended, together with whatever others
// wait for, and counts it as being on this replica from then on.
func (p *Partition) Flush(a Appended) error { return p.flush(a.LastOffset + 1) }

func (p *Partition) flush(end int64) error {
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	if err := log.Flush(end); err != nil {
		return fmt.Errorf("flush %s up to %d: %w", p.tp, end, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unflushedFrom == Never {
		return nil // another request's flush covered it, or the leadership is over
	}
	if flushed := log.FlushedTo(); flushed >= p.unflushedTo {
		p.unflushedFrom = Never
	} else {
		p.unflushedFrom = max(p.unflushedFrom, flushed)
	}
	if p.role == roleLeader {
		p.advanceLocked()
	}
	return nil
}

// FollowedDue tells whether a replica that follows must call FlushFollowed before
// its leader may hear of its position.
func (p *Partition) FollowedDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role == roleFollower && p.flushDueLocked()
}

// FlushFollowed syncs what was appended at or before a position.
func (p *Partition) FlushFollowed(at Position) error { return p.flush(at.Offset) }
