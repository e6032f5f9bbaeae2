package decide

// The faults that a build tag can put in, each named after its tag.
const (
	brokenFence   = "fence"   // broken_fence
	brokenLife    = "life"    // broken_life
	brokenUnclean = "unclean" // broken_unclean
	brokenKept    = "kept"    // broken_kept
)
