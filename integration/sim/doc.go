// Package sim runs whole clusters in memory, each under one seed: controllers and
// brokers start, elect, replicate, take requests, are killed, cut off, stopped and
// restarted at random, and after each step what must stay true is looked at. A
// failure prints its seed, and the seed gives the same run again:
//
//	go test ./integration/sim -run TestSim -v -args -seed 171 -log
//	make sim    # 10,000 seeds, then the faults that they must catch
//
// Where nothing is left to chance, clusters of two or three brokers are driven step by
// step: testdata/scenarios tells the classical ways to lose a record, testdata/cells
// tries every cell of a table of restarts. Both are rewritten with -rewrite.
//
// # What runs
//
// The product's own code, put together as cmd/node does it: controller with
// decide and api, metadata/replay, snapshot and follower, broker with its
// lifecycle, api, replica, fetcher and controllerclient, storage. They meet only
// by encoded requests and answers.
//
// Not the product's are Raft, the network, the disk and the clock. Raft is
// raftlog/memlog's Member: elections, leases and entries that reach some and not
// others are steps of the driver. So raftlog itself, hashicorp/raft, Bolt, the
// listeners' framing, TLS and SASL are not tried here; the coordinators of groups,
// compaction and transactions neither. The disk is storage/vfs.Mem; a power cut
// leaves of it what was synced and, as chance has it, some of the rest. A cluster's
// nodes have one clock, testing/synctest's: it leaps, and a node's time may stand
// still as others see it, but no two clocks differ, except those of producers.
//
// # How
//
// A cluster lives in a synctest bubble. One goroutine, the driver's, takes the next
// event (a message arrives, a node dies, an election), and waits until everything
// is at rest again; what was sent meanwhile is put in order, whichever goroutine
// sent it first, and gets its delay from the seed. Everything that is drawn comes
// from the seed. What is left to the runtime is which of several goroutines of one
// node goes first, and which of two timers of one instant: one processor, no
// collection of garbage during a run and pauses that are never equally long see to
// it that it does not count (TestReplay). Should the operating system hold up a
// step for 10 ms, it may; a failure that does not come back at once does at the
// second or third try.
//
// A run takes 20 to 45 s of faults and load, and then everything is healed. Within
// five minutes of the cluster's time all brokers must be unfenced, all replicas in
// sync, all reassignments done, all copies of metadata and partitions the same, and
// what was acknowledged must be there. Each seed draws its own kinds of faults:
// runs that differ find more than runs in which everything happens.
//
// # What is looked at
//
// Of the invariants of docs/architecture.md: 1 (acks=all), 2, 3, 4, 5, 8, 9, 10, 11
// and 12; that what is applied is the same everywhere and held by a majority; and that
// a broker which did not stop in order comes back with no place in any ISR or ELR
// (KIP-966). For 1 there are topics named safe…, with three replicas, two of which must
// be in sync; with those named wild… anything is done. Each safe partition has an
// idempotent producer, with five batches in flight, which sends again what it does not
// know to be appended, and a consumer that goes on behind what it has; others send one
// record, or read anywhere. What a replica takes for committed is compared at every
// step with what everybody else was told or shown.
//
// Power is cut at one broker only, and not where others are killed or moves are
// cancelled: a replica that ends uncleanly is taken for one that may have lost records,
// a cancelled move takes replicas out of the ISR at once, as Kafka's does, and two of
// them are one too many. Where safe topics sync every record (flush.messages=1) it is
// cut anywhere, and at all at once, and nothing may be lost.
//
// That a fault would be seen is shown by builds with one put in (broken_test.go).
//
// Start reading at world.run, then faults_test.go, check_test.go and records_test.go;
// script_test.go for what is driven step by step.
package sim
