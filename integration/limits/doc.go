// Package limits tries clusters with many partitions, and shows what they cost.
// The tests carry the build tag integration. What is asserted is that all comes
// right; figures are logged, for docs/performance.md:
//
//	go test -tags integration -run TestManyPartitions -v -timeout 30m ./integration/limits -partitions 10000
//	go test -tags integration -run TestManyRegistered -v -timeout 30m ./integration/limits -partitions 100000
//	go test -tags integration -run TestFirstWrite -v ./integration/limits
//	go test -tags integration -run TestObservers -v ./integration/limits
//
// KLAMM_NODE=kafka has Apache Kafka's nodes measured by the first.
//
// Start reading at partitions_test.go.
package limits
