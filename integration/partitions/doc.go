// Package partitions cuts the network between three combined nodes, each on a
// host of its own: no majority is left, the active controller is alone, deaf or
// mute, one link is cut, heartbeats alone are lost, a firewall refuses what comes
// to a controller that lives. It also has the active controller stand still, and
// kills all nodes in one moment. The tests carry the build tag integration.
//
// Records are written and topics created all the while. Each test ends with the
// same looks (world.whole): what was acknowledged is there, each record once;
// nodes have the same metadata and, byte for byte, the same logs; no controller
// epoch had two controllers, and there were no more than the test allows.
//
// A host is a network namespace, a cut is a rule of its firewall (harness.Network).
// That needs root; without it the tests are skipped. A hanging or failing disk
// under a controller is tried by package raftlog.
//
// Start reading at partitions_test.go.
package partitions
