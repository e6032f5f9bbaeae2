//go:build broken_unfenced

package replica

// broken: a fetch is answered whatever leader epoch it is of.
const broken = brokenUnfenced
