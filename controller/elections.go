package controller

import (
	"slices"
	"sync/atomic"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// elections count the leaders who were elected, and those among them who were not in
// sync then. Every controller counts what is in the log, active or not, as Kafka's do;
// what was there when it started is not news.
type elections struct {
	all      atomic.Int64
	eligible atomic.Int64 // out of the ELR: nothing committed can be missing (KIP-966)
	unclean  atomic.Int64 // others, the last known leader among them
}

func (e *elections) publish(delta *metadata.Delta) {
	for change := range delta.ChangedTopics() {
		if change.Old == nil || change.New == nil {
			continue
		}
		for before, after := range change.Partitions() {
			switch {
			case before == nil || after == nil || after.Leader == protocol.NoNode || after.Leader == before.Leader:
				continue
			case slices.Contains(before.ISR, after.Leader):
			case slices.Contains(before.ELR, after.Leader):
				e.eligible.Add(1)
			default:
				e.unclean.Add(1)
			}
			e.all.Add(1)
		}
	}
}

// Elections is how many leaders of partitions this controller has seen elected, these
// and those who were in sync.
func (c *Controller) Elections() int64 { return c.elections.all.Load() }

// EligibleElections is how many leaders of the eligible leader replicas this
// controller has seen elected.
func (c *Controller) EligibleElections() int64 { return c.elections.eligible.Load() }

// UncleanElections is how many leaders it has seen elected who may have lost
// records.
func (c *Controller) UncleanElections() int64 { return c.elections.unclean.Load() }
