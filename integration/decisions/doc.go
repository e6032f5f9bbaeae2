// Package decisions asks a cluster of three nodes what administrators, brokers
// and accidents ask of its controller, and compares what is answered (codes,
// texts, orders) and the records that are written with what Apache Kafka 4.4.0
// answered and wrote, which testdata holds.
//
//	go test -tags integration ./integration/decisions
//
// asks klamm and compares,
//
//	KLAMM_NODE=kafka go test -tags integration ./integration/decisions -args -record
//
// asks Kafka and writes testdata anew. Node 1 is controller and broker, 2 and 3 are
// brokers, so that either or both can be away; what three voters say of themselves
// is asked of another cluster. Requests go to a broker, which forwards them, or
// straight to the controller's listener (KIP-919), as the file says. Ids, ports and
// broker epochs are named; leader and partition epochs are as they are, since they
// count what was decided. Records are shown without the batches that they came in, and
// changes of several partitions in the order of the partitions.
//
// Where klamm differs on purpose, differences_test.go says why, and
// testdata/differences.txt what it does instead; a difference that is gone fails
// as well.
//
// Start reading at scenario_test.go.
package decisions
