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
// KLAMM_NODE=kafka the tests are about an Apache Kafka: see package harness.
//
// Cases that a client of one node can not show are tested where the fault would
// be: idle fetch sessions (B015) in broker/api, metadata that can not be applied
// or is of an unknown type (B056, B081) in metadata/replay and metadata/snapshot,
// short writes (B221) in storage, two sessions that end at once (B057) in
// controller. Where a node has to be cut off the test is in
// package partitions (B039, B041, B054). In package decisions reassignments are
// listed and cancelled (B092, B093), a log directory is lost (B222), and replicas are
// placed after a change of the controller (B089); in package cluster a reassignment
// waits for its replicas (B090).
//
// Cases that wait, and what for:
//
//	several nodes         B026 B027 B032 B038 B042 B044 B045 B047 B048 B050 B051
//	                      B053 B059 B060 B062 B063 B065 B066 B068 B069 B074
//	                      B087 B105 B113 B125 B131 B134 B135 B185 B195
//	                      B198 B201 B203 B204 B207
//	moving replicas       B095 B096 B192
//	transactions          B017 B018 B020 B128 B129 B132 B137 B138 B140 B141; of
//	                      B008 more than the refusal
//	compaction            B122 B143 B144 B146 B147 B149 B215
//	enforced quotas       B186; of B183 that a user is held to the default
//	authorization         B171 B173 B174 B176
//	SASL, TLS             B177 B180; of B188 the login
//	metrics               B194 B197; of B200 the count
//
// Start reading at node_test.go, then produce_test.go.
package faults
