//go:build broken_early

package replica

// broken: what is appended passes for committed.
const broken = brokenEarly
