// Package rolling looks at three nodes as clients do while leaders move: nodes are
// stopped and started one after the other under clients of three kinds with their
// default settings, leaderships go round, consumers read from the replica in their
// rack. No error comes to the surface, nothing is lost, what exists is never unknown
// and what is there never out of range. The tests carry the build tag integration.
//
// How long things took is logged, not asserted: run with -v. -partitions says how many
// the nodes have that TestStopsOfManyPartitions stops (`make stops`: 1000), -suite runs
// franz-go's own tests too (`make franz`).
//
// Start reading at rolling_test.go.
package rolling
