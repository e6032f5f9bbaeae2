// Package replication tries what an operator relies on and looks at while brokers
// die: nothing that was acknowledged is lost or there twice, all replicas are the same,
// which klamm replicas verify says, logs that do not belong to a node any more are set
// aside (klamm log strays), the metadata log tells why each in-sync set and leader
// changed and what an unclean election lost, and the metrics show it. The tests carry
// the build tag integration.
//
// -kills says how often TestLeaderKilledAgainAndAgain kills.
//
// Start reading at killed_test.go.
package replication
