// Package quota holds traffic to a rate.
//
// It owns the arithmetic and knows nobody's partitions or connections: whoever
// moves bytes asks whether they may go, and says how many have gone.
//
//	r := quota.NewRate(window, size)
//	r.Set(bytesPerSecond)
//	if wait := r.Wait(); wait == 0 { r.Add(send()) }
//
// Replication is held to a rate on both sides (KIP-73): a leader keeps records
// back, a follower does not ask for them. Only replicas that topics name are, and
// of them only those that are not in sync, or a throttle would take partitions
// out of the ISR. Kafka counts what in-sync replicas fetch all the same, so that
// ordinary traffic can use up the rate and a move stand still; here only what can
// be held back is counted. Consumers are no business of either.
//
// All methods may be called by anybody; a Rate has one lock, a leaf.
//
// Start reading at Rate.Wait.
package quota
