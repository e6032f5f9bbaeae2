// Package telemetry is what the parts of a node share for being watched from
// outside: so far a bound on log lines that clients can cause at will.
//
//	log = telemetry.LimitRepeats(log)
//
// A line's kind is its message, which is a constant phrase all over the node, so
// the bound is one hook of the logger and no matter of those who write lines.
// It starts no goroutines.
//
// Start reading at repeats.go.
package telemetry
