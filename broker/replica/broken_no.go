//go:build !broken_watermark && !broken_bound && !broken_maximal && !broken_early && !broken_counted && !broken_truncate && !broken_unfenced && !broken_late

package replica

// broken names a fault that is built in on purpose, with a build tag, to show
// that a test catches it: TestBrokenBuildIsCaught here, and integration/sim's.
// Here: none.
const broken = ""
