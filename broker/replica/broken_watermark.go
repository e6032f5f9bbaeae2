//go:build broken_watermark

package replica

// broken: the high watermark runs ahead of the log end.
const broken = brokenWatermark
