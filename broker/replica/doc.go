// Package replica is the partitions on this broker: who leads them, which
// replicas are in sync, and up to where their records are committed.
//
// A Manager follows the metadata: Apply turns every change of an image into a
// role for each Partition that has a replica here. A Partition appends as the
// leader, reads for consumers and for other replicas, keeps the high watermark,
// and wakes those who wait for it. The bytes are those of storage; batches come
// validated, requests and responses are the business of broker/api. The network
// is too: a follower's records come by its fetcher, not from here.
//
//	p, ok := manager.Partition(topicID, 0)
//	a, err := p.AppendAsLeader(batch, true, storage.AppendOptions{})
//	for done, err := p.Committed(a); !done && err == nil; done, err = p.Committed(a) {
//		p.ParkForCommit(waiter, a)
//		waiter.Wait(ctx, deadline)
//	}
//
// What is decided is decided by functions over small structs, called by whoever
// holds the lock: transition says what a change of the metadata means,
// nextHighWatermark how far is committed.
//
// A follower waits in a fetch of what it follows; where it gets another partition of
// this leader that fetch ends, so that it comes for that too (arrivals.go).
//
// What a follower in sync has all of is watched from fetch to fetch (watch.go), so that
// its fetches are about partitions with news alone.
//
// There are two goroutines here: Run looks for followers that lag and asks the
// controller for the ISRs that leaders want (KIP-497), RunAssignments tells it which
// log directories replicas are in (KIP-858, assign.go). Apply is called in order by
// the goroutine that replays the metadata, and uses some while it runs; a request
// that waits is a Waiter in the lists of its partitions, and its connection's
// writer sleeps on it. Lock order: Manager.mu → Partition.mu → storage.Log.mu;
// arrivals.mu, assignments.mu, a Watcher's and the proposer's are leaves.
// An append holds Partition.mu, so a role never changes under it; records are
// read without.
//
// Differences from Kafka: there is no purgatory with threads, timers and watch
// keys; an append is reported as committed only under the leadership that made
// it (Kafka looks at offsets alone); a follower says that what it does not have is
// not available (Kafka: out of range, and a consumer may begin elsewhere);
// partitions are found by topic id, so the replica of a topic that was created anew
// is never taken for the old one's.
//
// What an election outside of the ISR has cost shows when those come back who had it:
// see loss.go.
//
// Start reading at Manager.Apply, then Partition.become and AppendAsLeader.
package replica
