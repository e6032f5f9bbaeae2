// Package cluster tries three combined nodes, each controller and broker, with
// clients and tools that others wrote: leaders and controllers are killed, nodes
// are stopped and go on, all die at once, partitions are moved. What was
// acknowledged is there afterwards, and the replicas' logs are equal byte for
// byte. The tests carry the build tag integration.
//
// How long things took is logged, not asserted: run with -v.
//
// Start reading at cluster_test.go.
package cluster
