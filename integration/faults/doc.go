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
// Cases that a client of one node can not show are tested where the fault would be:
//
//	broker/api         idle fetch sessions (B015)
//	broker/replica     what a leader answers to whom (B026 B032 B038), the follower's
//	                   position (B042 B044), in-sync sets (B050 B051)
//	controller         two sessions that end at once (B057), a busy log (B087 B203),
//	                   how elections are counted (B053)
//	metadata/replay    what can not be applied (B056)
//	metadata/snapshot  an unknown type (B081)
//	raftlog            hand-overs that fail (B062 B063)
//	storage            short writes (B221)
//
// Among packages of integration, sim looks at what consumers see (B027 B047 B048) and
// at blocks of producer ids (B134); partitions has nodes cut off and stopped (B039 B041
// B054 B060 B068 B113 B125); voters has controllers removed and away (B059 B065 B066);
// cluster has controllers killed (B069), a leader stopped (B204 B207), a follower that
// stands still (B045 B105), and reassignments (B090 B095 B096 B192); moves has throttles,
// which consumers do not feel (B185); decisions has
// reassignments listed and cancelled (B092 B093), a lost log directory (B222), and
// placement after a change of the controller (B089); inspection has a quorum recovered
// (B074) and described (B195); replication looks at metrics while leaders move (B201);
// rolling has clients at work meanwhile (B026 B027 B032 B203 B207).
//
// Cases that wait, and what for:
//
//	transactions          B017 B018 B020 B128 B129 B131 B132 B135 B137 B138 B140
//	                      B141; of B008 more than the refusal
//	compaction            B122 B143 B144 B146 B147 B149 B215
//	enforced quotas       B186; of B183 that a user is held to the default
//	authorization         B171 B173 B174 B176
//	SASL, TLS             B177 B180; of B188 the login
//	reports of health     B198
//
// Start reading at node_test.go, then produce_test.go.
package faults
