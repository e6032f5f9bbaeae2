// Package integration tests the real binary with clients that others wrote:
// kcat, franz-go, and Apache Kafka's own tools and broker. Its tests start
// processes, kill them, and look at what is left; they carry the build tag
// integration, and `make integration` runs them.
//
// They need kcat, and Java with Maven for Kafka's tools; one that is missing is
// a failure that says how to install it, not a skip. KLAMM names the binary
// (default: bin/klamm of the checkout), KLAMM_KAFKA_TOOLS a launcher of Kafka's
// tools other than kafkatools/kafka. What more clients do, each the same, is
// tried by package clients; it also needs Python and Node.js.
//
// TestKillUnderLoad ends a node twenty times; -kills says how often, and -kill-seed
// repeats what an earlier run drew:
//
//	go test -tags integration -run TestKillUnderLoad -v -timeout 1h ./integration -kills 500
//
// Every test has its own directory, ports and processes: see package harness. A
// node's log goes to a file and its end is shown when a test fails.
//
// Start reading at start_test.go, then kill_test.go.
package integration
