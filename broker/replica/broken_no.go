//go:build !broken_watermark

package replica

// brokenWatermark is a fault that the build tag broken_watermark builds in, to
// show that a test catches it: TestBrokenBuildIsCaught.
const brokenWatermark = 0
