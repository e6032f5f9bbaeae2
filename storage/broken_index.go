//go:build broken_index

package storage

// broken: a lookup finds the entry after the right one.
const broken = brokenIndex
