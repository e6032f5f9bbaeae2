// Package mixed tries clusters in which some nodes are klamm's and some Apache
// Kafka's, under load: replicas of a partition on both, each of them leading and
// killed in turn, under either kind of controllers; and clusters that pass from
// one to the other, broker by broker.
//
// What is written during a test, by franz-go and by librdkafka, must be there at
// its end, once, in order and at the offset that was answered; what a reader has
// seen meanwhile must still stand where it was; and the replicas' files must hold
// the same bytes. The tests carry the build tag integration.
//
// -controllers=N has as many controllers of Apache Kafka's as a quorum in earnest.
// A JVM takes seconds to start, so there is one unless it is said.
//
// Start reading at killed_test.go, then load_test.go.
package mixed
