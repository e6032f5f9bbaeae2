// Package clients tries the real binary with client libraries of five
// languages, each written by others, and does the same with each: create a
// topic, produce with every codec, share it in a group whose members come and
// go, commit, have the node restarted and killed, and go on where the group was
// (TestLife). What one writes all others must read, codec by codec
// (TestEachReadsWhatAllWrote). The tests carry the build tag integration, and
// `make integration` runs them.
//
// A file describes one client, as its users would use it, with its defaults but
// for what makes a test slow. Those written in Go run in the test; the others
// are processes. For Python and JavaScript these are the scripts in testdata,
// which take a command and its arguments, records and the wish to end on
// standard input, and print a record a line, in JSON. Their libraries are
// pinned there and installed with pip and npm into the user's cache directory
// when first needed.
//
// With KLAMM_NODE=kafka the node is an Apache Kafka: see package harness. There a
// member of confluent-kafka-python may stay away after the clean restart: see
// errNoBroker of broker/api.
//
// Start reading at client_test.go, then life_test.go.
package clients
