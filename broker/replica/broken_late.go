//go:build broken_late

package replica

// broken: what an earlier leader answered is appended.
const broken = brokenLate
