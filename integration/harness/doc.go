// Package harness starts a broker as a process for tests that use real clients,
// kills it, and starts it again on what is left. It also finds the programs
// that such tests need. It carries the build tag integration.
//
// KLAMM names the binary (default: bin/klamm of the checkout), KLAMM_KAFKA_TOOLS
// a launcher of Kafka's tools other than kafkatools/kafka. With KLAMM_NODE=kafka
// every node is an Apache Kafka instead: a test that fails there is wrong.
//
// Every node of a test is one of these, started at once or step by step; a Shared
// is one for all tests of a package. A Network gives each node of a cluster a host
// whose connections can be cut. A World is a cluster with a client and what tests
// ask of them. A Process is a client that is a program, in a Language.
//
// Start reading at node.go, then cluster.go.
package harness
