// Package roles tries clusters whose controllers and brokers are nodes apart.
// Brokers follow the metadata by Kafka's own Fetch. Package mixed puts nodes of
// Apache Kafka's among them. The tests carry the build tag integration.
//
// Start reading at split_test.go.
package roles
