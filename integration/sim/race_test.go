//go:build race

package sim

// The race detector costs ten times as much, and has the runtime shuffle who runs.
const (
	defaultSeeds = 20
	shuffled     = true
)
