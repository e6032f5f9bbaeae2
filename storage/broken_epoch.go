//go:build broken_epoch

package storage

// broken: the leader epoch of an appended batch is not set.
const broken = brokenEpoch
