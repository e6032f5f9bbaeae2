//go:build !broken_crc && !broken_epoch && !broken_index

package storage

// broken names a fault that is built in on purpose, with a build tag, to show
// that a test catches it: TestBrokenBuildsAreCaught. Here: none.
const broken = ""
