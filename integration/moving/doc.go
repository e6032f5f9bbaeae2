// Package moving looks at three nodes as clients do while leaders move: nodes are
// stopped and started one after the other under clients of three kinds with their
// default settings, leaderships go round, consumers read from the replica in their
// rack. No error comes to the surface, nothing is lost, what exists is never unknown
// and what is there never out of range. The tests carry the build tag integration.
//
// How long things took is logged, not asserted: run with -v.
//
// Start reading at rolling_test.go.
package moving
