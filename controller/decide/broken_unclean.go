//go:build broken_unclean

package decide

// broken: anybody who lives is elected, allowed or not.
const broken = brokenUnclean
