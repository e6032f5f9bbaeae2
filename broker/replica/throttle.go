package replica

import "slices"

// A replication throttle (KIP-73) holds replicas that have to catch up, those of
// partitions that move before all. Who is in sync is not held, on neither side: it
// would leave the ISR.

// throttledLocked tells whether what a follower fetches counts for the leader's
// throttle.
func (p *Partition) throttledLocked(req FetchRequest) bool {
	return req.Throttle != nil && req.Replica >= 0 && p.role == roleLeader &&
		p.config.LeaderThrottled.Has(p.tp.Partition) && !slices.Contains(p.inSync.committed, req.Replica)
}

// throttlesItselfLocked tells whether what this replica fetches counts for the
// follower's throttle.
func (p *Partition) throttlesItselfLocked() bool {
	return p.config.FollowerThrottled.Has(p.tp.Partition) && !slices.Contains(p.inSync.committed, p.local)
}
