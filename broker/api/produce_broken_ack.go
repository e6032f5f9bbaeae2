//go:build broken_ack

package api

// brokenAck: a batch counts as appended whatever the log says.
const brokenAck = true
