// Package group is the coordinator of groups: who is a member, who leads, who
// was assigned what, and which offsets a group has committed.
//
// Machine is that state for one partition of __consumer_offsets, and a plain
// value: broker/coordinator hands it events and does what it answers. It owns
// the classic group protocol and the committed offsets; the requests' wire forms
// and what needs an image (topic ids, whether a topic exists) are broker/api's.
//
//	m := group.NewMachine(cfg, log)
//	m.Replay(record)                       // a group's or an offset's
//	outcome := m.Handle(now, token, group.Join{…})
//
// A group is Empty until somebody joins; then it prepares a rebalance until all
// members have joined or the rebalance timeout has passed, completes it when the
// leader has sent the assignment, and is Stable:
//
//	Empty ─► PreparingRebalance ─► CompletingRebalance ─► Stable
//	               ▲  └─► Empty            │                 │
//	               └───────────────────────┴─────────────────┘
//
// Members, their timers and who waits for an answer are in memory only. Written
// are a group's first appearance, its assignment when the leader sends it, a
// static member's new id, and that the last member is gone; so a new coordinator
// has the members of the last assignment, and a join in progress begins anew.
//
// Records are Kafka's: keys OffsetCommitKey v1 and GroupMetadataKey v2, values
// OffsetCommitValue v4 (v1 where the client gave an expiry) and
// GroupMetadataValue v3; every version down to 0 is read. Records of the
// consumer, share and streams groups (key types from 3 on) are left out, with a
// line in the log for all of them.
//
// It differs from Kafka: a join or sync that is repeated on another connection
// ends the first one's wait, where Kafka leaves that unanswered; a committed
// offset of a deleted topic does not come back with a new topic of that name,
// also where the deletion was missed; members are kept in the order of joining,
// so a new leader is the one who has been there longest.
//
// Start reading at Machine.Handle, then turn.join and turn.completeJoin.
package group
