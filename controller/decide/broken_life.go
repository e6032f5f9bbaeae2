//go:build broken_life

package decide

// broken: a proposed member may be an earlier life of its broker.
const broken = brokenLife
