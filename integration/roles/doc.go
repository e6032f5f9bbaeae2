// Package roles tries clusters whose controllers and brokers are nodes apart:
// klamm's alone, and mixed with Apache Kafka's, either way round. Brokers follow
// the metadata by Kafka's own Fetch, so both halves must take each other for what
// they know. The tests carry the build tag integration.
//
// Start reading at split_test.go.
package roles
