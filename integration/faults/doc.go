// Package faults holds public bugs of servers that speak Kafka's protocol, one
// test each: what a client saw there must not be seen here. A test is named
// after its case and what it is about; its comment says what went wrong
// elsewhere and what is right. It stands for a kind of fault, not for the one
// input.
//
// The tests talk to the real binary, most of them to one node that the package
// starts and all share, with topics and groups of their own; those that restart
// a node or need settings start another. Requests are written byte by byte
// where a client library would not send them. They carry the build tag
// integration, and `make integration` runs them.
//
// KLAMM names the binary (default: bin/klamm of the checkout). With
// KLAMM_FAULTS_KAFKA=LAUNCHER, which runs Kafka's tools by name and its classes
// by "java CLASS", the tests are about an Apache Kafka: where one of them fails
// there it is the test that is wrong.
//
// Start reading at node_test.go, then produce_test.go.
package faults
