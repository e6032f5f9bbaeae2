// Package controller is the active controller: the one place of a cluster where
// metadata changes are decided, one after the other.
//
// It owns the order of decisions, the sessions of brokers and the answers to
// whoever asked. What is decided is a function of controller/decide, who keeps it
// is the log that it is given, and memory changes when the log is replayed.
//
//	c := controller.New(cfg, log, images, logger)
//	go c.Run(ctx)                       // takes office whenever the log lets it
//	pending := c.CreateTopics(req, deadline)
//	resp, err := pending.Wait(ctx)      // after the commit
//
// A request becomes an op in a bounded queue. One batch is in flight at a time;
// what arrives meanwhile is the next round: op after op is decided upon a pending
// image, which is the committed one and all decisions before it, and the records
// are proposed together, at most 10,000 or 1 MiB in a batch. Answers leave after
// the commit, also those that only say "exists already": what they saw may not
// have been committed (invariant 9). What must be atomic and is larger than a
// batch goes between Begin- and EndTransaction records. What is about all
// partitions of a broker need not be, and comes in pieces, a round each
// (decision.more); the next office finishes what this one has begun.
//
// Office begins when the log reports leadership, which is after the first entry
// of the epoch has been replayed here, so the committed image is complete; every
// broker is granted a fresh session. It ends when leadership does, or when the
// fate of a batch is unknown. Every op that waits is then answered
// NOT_CONTROLLER, which makes the broker look for the controller and ask again;
// a decision is never carried over into another epoch (invariant 11).
//
// A broker is fenced when its session has timed out, or, where Config.Probe is
// given, as soon as its process is seen to be gone (evidence.go).
//
// Who votes over the log is changed one at a time (voters.go, KIP-853), by whoever
// asks, who waits for Raft outside of the loop; what the log says of it is decided and
// committed in the queue like anything else.
//
// One goroutine, Run's, owns office, pending image and sessions; a second one,
// which it starts and waits for, sits in Propose, and the detector has some that
// dial. The queue is behind the only mutex besides the detector's. Nothing else is
// shared: handlers meet the loop in the queue and wait on their op's channel.
//
// Kafka pipelines its batches and keeps a timeline of uncommitted states; rounds
// need one rule instead and reach the same rate by their size.
//
// Start reading at controller.go, then office.go.
package controller
