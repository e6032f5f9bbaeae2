// Package moves has replicas of real nodes moved from broker to broker at a
// throttled rate (KIP-73), under load, and watches with klamm's own commands; and has
// leaders elected that lost records, which the logs and the metadata have to say.
//
//	go test -tags integration ./integration/moves
//
// Moves without throttles, and Kafka's tools for them, are in package cluster; what
// these tools print is in package tools. Package harness says which binary is tested.
//
// Start reading at world_test.go.
package moves
