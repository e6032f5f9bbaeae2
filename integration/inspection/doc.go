// Package inspection tries, on clusters of several nodes, what an operator has
// when something went wrong: klamm quorum status, klamm metadata recover, and the
// commands that read metadata, on running nodes, stopped ones and single files.
// The tests carry the build tag integration.
//
// Start reading at world_test.go.
package inspection
