//go:build broken_fence

package decide

// broken: a proposal is taken whatever partition epoch it is of.
const broken = brokenFence
