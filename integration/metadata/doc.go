// Package metadata compares what klamm's metadata log says with what Apache
// Kafka's says after the same requests: record by record in the words of
// Kafka's dump tool, and as the tree of Kafka's metadata shell. It also moves
// directories between the two and asks the other what it finds. Three nodes are
// compared too: what Kafka's tools print of klamm's, and what klamm prints of
// Kafka's.
//
// What Kafka wrote is recorded in testdata; with -record the tests start a
// Kafka node, do the same to it and write the files anew. Ids, times, offsets
// and epochs are replaced by names in the order in which they appear, so that
// what refers to one another still must.
//
// The tests carry the build tag integration, and `make integration` runs them.
// KLAMM names the binary (default: bin/klamm of the checkout),
// KLAMM_KAFKA_TOOLS a launcher of Kafka's tools other than kafkatools/kafka.
//
// Start reading at operations_test.go, then records_test.go.
package metadata
