//go:build !broken_fence && !broken_life && !broken_unclean && !broken_kept

package decide

// broken names a fault that is built in on purpose, with a build tag, to show
// that integration/sim catches it. Here: none.
const broken = ""
