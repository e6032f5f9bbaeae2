//go:build !broken_ack

package api

// brokenAck is a fault that the build tag broken_ack builds in, to show that a
// test catches it: TestBrokenAckIsCaught.
const brokenAck = false
