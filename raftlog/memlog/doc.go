// Package memlog is raftlog's contract in memory, for tests of what stands on
// it: no disk, no network, no clock, no goroutine but Run's and the callers'.
//
// By itself a Log leads as soon as it runs and commits each proposal at once,
// on the proposer's goroutine. A test that wants to see the road in between
// takes the steps itself:
//
//	l.Hold()                 // from now on proposals wait, appended but not committed
//	go ctrl.createTopic()    // …
//	l.Pending()              // what waits
//	l.Commit()               // committed and applied: the proposer has its offset
//	l.Lose()                 // the proposer learns that nobody knows; the entry stays:
//	l.Commit(); l.Forget()   //   it turns out to be committed, or lost
//	l.Depose(2); l.Append(…) // node 2 leads in a new term and commits entries
//	l.Lead()                 // this node leads in a new term, its first entry applied
//
// A Disk is what survives: New with the Disk of an earlier Log is a restart.
//
// Where several nodes are wanted, a Member is one log of a quorum, with terms,
// elections and entries that reach some and not others (member.go, member_elect.go,
// member_replicate.go).
//
// The same tests run over this package and over raftlog's engine:
// raftlog/contract_test.go.
//
// Lock order: step (held while the state machine is called), then mu or the
// disk's, never both.
//
// Start reading at Log.Propose, or at Member.
package memlog
