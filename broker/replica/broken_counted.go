//go:build broken_counted

package replica

// broken: an ISR counts for the high watermark before it is committed.
const broken = brokenCounted
