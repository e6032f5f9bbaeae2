//go:build broken_maximal

package replica

// broken: of the ISR, only what is committed counts for the high watermark.
const broken = brokenMaximal
