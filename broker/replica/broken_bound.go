//go:build broken_bound

package replica

// broken: the high watermark does not wait for the ISR.
const broken = brokenBound
