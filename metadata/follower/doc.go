// Package follower keeps a copy of the metadata log on a node that has no vote
// (a broker, or a controller that waits to become a voter or was one): it fetches
// __cluster_metadata-0 from the active controller, exactly as an
// observer of Kafka's does (KIP-595, KIP-630).
//
//	f := follower.New(cfg, log)
//	err := f.Run(ctx)
//	id, changed := f.Leader()   // where requests to the controller go
//	addr, ok := f.Address(id)
//
// A round is one Fetch: where this log ends, in which epoch its last record was
// written, the epoch of the leader as this node knows it, its high watermark.
// The answer has records, or where the logs part, or the checkpoint to be
// fetched first, or another leader. What an answer does to log and image is the
// Replica's business (metadata/replay).
//
// Finding the leader. A node that knows none asks the voters, or the bootstrap
// servers, in turn: every controller answers with the leader and its address. The
// epoch never goes back, over restarts neither (quorum-state), so an old leader
// that lives on is not listened to.
//
// A checkpoint is fetched piece by piece into a file of its own, verified from
// end to end, renamed, and only then takes the log's place. One that is damaged
// is refused, with file and position, and fetched again.
//
// Errors of the network and of a leader are tried again for ever, from one
// controller to the next. Run ends with an error only where this node can not go
// on: its disk, a record that it does not know, a log of another history.
//
// One goroutine, Run's. Leader and Address may be called by anybody; mu guards
// what they see.
//
// Start reading at Run.
package follower
