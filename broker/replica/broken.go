package replica

// The faults that a build tag can put in, each named after its tag.
const (
	brokenWatermark = "watermark" // broken_watermark
	brokenBound     = "bound"     // broken_bound
	brokenMaximal   = "maximal"   // broken_maximal
	brokenEarly     = "early"     // broken_early
	brokenCounted   = "counted"   // broken_counted
	brokenTruncate  = "truncate"  // broken_truncate
	brokenUnfenced  = "unfenced"  // broken_unfenced
	brokenLate      = "late"      // broken_late
)
