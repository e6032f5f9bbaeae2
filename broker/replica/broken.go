package replica

// The faults that a build tag can put in, each named after its tag.
const (
	brokenWatermark = "watermark" // broken_watermark
	brokenBound     = "bound"     // broken_bound
	brokenMaximal   = "maximal"   // broken_maximal
	brokenEarly     = "early"     // broken_early
)
