// Package moves has replicas of real nodes moved from broker to broker at a
// throttled rate (KIP-73), and watches with klamm's own commands.
//
//	go test -tags integration ./integration/moves
//
// Moves without throttles, and Kafka's tools for them, are in package cluster; what
// these tools print is in package tools. Package harness says which binary is tested.
//
// Start reading at throttle_test.go.
package moves
