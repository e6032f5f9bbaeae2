//go:build race

package batch

// The race detector makes pools drop some of what they are given.
const underRace = true
