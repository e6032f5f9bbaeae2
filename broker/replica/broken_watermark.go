//go:build broken_watermark

package replica

// brokenWatermark: the high watermark runs ahead of the log end.
const brokenWatermark = 1
