// Package coordinator is the engine under every coordinator: state that lives in
// memory and in a compacted partition, changed by one goroutine per partition.
//
// What a coordinator is about it leaves to a Machine, a plain value without
// clock, lock or I/O: Handle takes an event and a time and says which records
// follow, who is answered and which timers run; Replay takes a record in. The
// engine appends the records, has them replayed, and answers when they are
// committed.
//
//	c := coordinator.New(coordinator.Config{Topic: …, NewMachine: …, Partition: …}, log)
//	go c.Run(ctx)                     // owns the loops
//	c.Apply(delta, img)               // elected here, or no longer
//	call := c.Submit(partition, event)
//	answer, err := call.Wait(ctx)     // where the request's answer is waited for
//
// A shard is one partition that this broker leads. It begins with everything
// that the partition held when its leadership began, once that is committed; who
// asks meanwhile is told COORDINATOR_LOAD_IN_PROGRESS. It ends when the leader
// epoch changes, and all who wait are told NOT_COORDINATOR.
//
// An answer is decided on the records appended so far, committed or not, and
// leaves when the last of them is committed. So nobody is told of what a new
// leader might not have, and no decision waits for the replicas. The wait is the
// caller's: it parks at the partition as a Produce with acks=all does.
//
// Goroutines: Run, one loop per shard, all ended by Run. Submit never blocks: a
// full queue answers COORDINATOR_LOAD_IN_PROGRESS. Locks: Coordinator.mu and
// shard.mu are leaves; no call out is made under them.
//
// It differs from Kafka: there are no snapshots of the state by offset (Kafka
// answers reads from the committed state, we hold the answer back), and a shard
// loads up to the high watermark after that has reached the log end, where Kafka
// reads to the log end and catches up later.
//
// Start reading at Machine, then shard.run.
package coordinator
