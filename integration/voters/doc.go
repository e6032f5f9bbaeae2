// Package voters changes the controllers of running clusters (KIP-853): with klamm's
// and with Kafka's tool, under load, while the active one is removed, while nodes are
// killed in the middle, after a disk was lost. What was acknowledged is there
// afterwards, and all nodes hold the same metadata. The tests carry the build tag
// integration.
//
// How long things took is logged, not asserted: run with -v.
//
// Start reading at voters_test.go.
package voters
