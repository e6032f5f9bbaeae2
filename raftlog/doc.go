// Package raftlog is the replicated log under the metadata: order, durability,
// leadership and voters, over hashicorp/raft, which nothing else imports. It
// moves opaque entries and has never heard of topics. Its state machine and its
// snapshots are given to it as interfaces.
//
// The main operation, in the five lines of a controller:
//
//	l, err := raftlog.Open(cfg)             // opens and checks the store
//	go l.Run(ctx)                           // until ctx ends, or an error that ends the node
//	lead, changed := l.Leadership()         // wait for lead.Leading; lead.Epoch is the term
//	offset, err := l.Propose(ctx, lead.Epoch, batch)
//	errors.Is(err, raftlog.ErrUnknownOutcome) // may be committed yet: look at what is applied
//
// # Files
//
//	raftlog.go      the contract: Log, StateMachine, SnapshotStore
//	config.go       Config, and the library's configuration made from it
//	engine.go       Engine: Open, Run, Accept
//	session.go      one life of the library: start, taking office, stop
//	identity.go     under which id a node is a server
//	voters.go       who votes, and where they listen; members.go: Raft's membership
//	                follows the voters of a dynamic quorum
//	office.go       leadership: what the library says, and what is published
//	propose.go      Propose and what its outcomes mean
//	tell.go         followers learn at once what is committed
//	evidence.go     a leader whose process is gone is replaced at once
//	status.go       Status, TakeSnapshot
//	bootstrap.go    a new log's first entry; whose store this is
//	stored.go       what a stopped node's store says
//	lone.go         one node goes on where the others are lost
//	bolt.go         opening and compacting raft.db
//	boltcheck.go    whether its pages are whole
//	early.go        entries kept from a start's first reading to its second
//	quorumstate.go  the quorum-state file, for Kafka's readers
//
// # What stands between us and the library
//
// Each of these works around a fault that is open upstream; its file says which.
//
//	transport.go  heartbeats through the main loop (#695); no pipeline (#612);
//	              RPCs of our own (TimeoutNow to oneself); screening of what a
//	              peer sends. acks.go: what each peer has acknowledged, and when
//	stream.go     connections: dialled, or handed over by the listener that
//	              also serves Kafka. preface.go: who speaks to whom. pins.go:
//	              the directory id of each voter
//	store.go      deadline and fail-stop on every write (#503, #614, #666)
//	vote.go       term and candidate of a vote in one write (#661)
//	snapshots.go  repair of the snapshot loop (#697); the newest snapshot or none (#522)
//	fsm.go        the state machine as a raft.BatchingFSM
//	hclog.go      the library's log, a level lower
//	failure.go    the first error, which ends the engine
//
// A server's id and its address are both the node id, in a dynamic quorum with the
// directory id: the library checks no target and knows only addresses, so a blank
// disk behind an old voter's address would vote in its name. Here each connection
// says by its preface who calls and who is meant, with the directory ids of both, and
// either side refuses a mismatch with the reason in both logs. In a static quorum a voter's
// first directory id is pinned in raft.db; in either kind the id of a voter's own
// raft.db is, since the same format command makes the same directory id again.
//
// # Voters that come and go
//
// Who votes in a dynamic quorum the metadata log says, in Voters records (KIP-853);
// Raft's own membership follows it, led by the leader (members.go). A node that is no
// member runs the library too, without a log and without a vote, and waits to be fed.
//
// There is no cache of entries above Bolt: with entries of up to 1 MiB one of
// useful length would hold hundreds of MiB, and Bolt's pages are mapped anyway.
// It also means that the state machine may change an entry's bytes in place.
//
// # Ends
//
// What makes it impossible to go on (a write that fails or hangs, a state
// machine that can not apply) is the error that Run returns, and the process is
// to end with it: by then heartbeats have stopped, so others elect. The library
// panics on some of these. It does not get to see them: the goroutine of its
// that ran into one ends by runtime.Goexit. What is left are panics on broken
// invariants, ours and the library's: they end the process at once, with the
// reason and the stack on stderr and exit code 2. Nothing recovers them, since
// going on would corrupt the log.
//
// # Goroutines
//
// Run owns, per session, the library's (main loop, FSM, snapshots, and per peer
// one for entries and one for heartbeats) and three of ours: forward (RPCs from
// the transport to the main loop), hear (drains the channel on which the main
// loop blocks, never calls the library) and watch (takes office, publishes,
// writes quorum-state); with fast failure detection a fourth, the detector's. A connection is greeted on the goroutine of whoever
// calls Accept. A lone voter that is idle wakes about once a second.
//
// Locks are leaves: no two of this package are held at once, none during a
// write, a dial or a call of the library.
//
// # Differences from Kafka
//
// Kafka's own Raft (KIP-595) replicates the metadata log itself, by Fetch. Here
// entries live in raft.db and the metadata log is derived from them, so the
// quorum's protocol is not Kafka's, and Vote, BeginQuorumEpoch and
// EndQuorumEpoch are not served. Epochs mean the same. quorum-state is written
// once a leader is known, after Bolt, so it never is ahead of it: where it is,
// raft.db has been lost, and Open refuses to vote. Only a lone voter without
// raft.db begins a new one on what its metadata log holds (Config.Inherited),
// since that is how the directory of a Kafka node looks.
//
// Start reading at Engine.Run, then session.go.
package raftlog
