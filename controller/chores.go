package controller

import (
	"time"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
)

// chore is a look at all partitions that comes again while the controller is in
// office.
type chore struct {
	name, done string // done is what the log says of it
	every      time.Duration
	next       time.Time // of the next look
	queued     bool      // an op for it is
	// decide changes up to most partitions, and tells whether there may be others.
	decide func(img *metadata.Image, most int, env decide.Env) (records []record.Record, more bool)
}

// electLeaderless is the chore of an office that begins, and where a broker has come
// back.
const electLeaderless = "ElectLeaders"

// chores are those of an office that begins.
func (c *Controller) chores(began time.Time) []*chore {
	var out []*chore
	for _, one := range []chore{
		{name: electLeaderless, every: noLease, decide: decide.ElectLeaderless, done: "elected leaders that were missing"},
		{name: "Rebalance", every: c.cfg.RebalanceInterval, decide: decide.Rebalance, done: "gave leaderships back to the preferred replicas"},
		{name: "ElectUnclean", every: c.cfg.UncleanInterval, decide: decide.ElectUnclean, done: "elected leaders that may have lost records"},
	} {
		if one.every > 0 {
			one.next = began.Add(one.every)
			if one.name == electLeaderless {
				one.next = began
			}
			out = append(out, &one)
		}
	}
	return out
}

// maxChore bounds the partitions that a chore changes at a time, so that it does
// not hold up other changes.
const maxChore = 1000

// do does a chore. Where there is more it goes on in the next round.
func (o *office) do(of *chore) []record.Record {
	records, more := of.decide(o.pending, maxChore, o.c.cfg.Env)
	of.queued, of.next = false, time.Now()
	if !more {
		of.next = of.next.Add(of.every)
	}
	if len(records) > 0 {
		o.c.logger.Info().Int("partitions", len(records)).Msg(of.done)
	}
	return records
}

// soon has a chore done in the next round.
func (o *office) soon(name string) {
	for _, chore := range o.chores {
		if chore.name == name {
			chore.next = time.Now()
		}
	}
}
