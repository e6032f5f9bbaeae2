package node

import (
	"context"
	"time"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/telemetry"
)

// What GroupMetadataManager has in Kafka, and members, which it does not tell.
var (
	groupCount   = gaugeOf(groupsMetric, "Groups that this broker coordinates.")
	offsetCount  = gaugeOf("kafka_coordinator_group_groupmetadatamanager_numoffsets", "Committed offsets of these groups.")
	groupMembers = gaugeOf("klamm_group_members", "Members of a group that has some.")

	groupStates = map[string]*telemetry.Family{
		"Empty":               gaugeOf(groupsMetric+"empty", "Those without members."),
		"PreparingRebalance":  gaugeOf(groupsMetric+"preparingrebalance", "Those that wait for members to join."),
		"CompletingRebalance": gaugeOf(groupsMetric+"completingrebalance", "Those that wait for an assignment."),
		"Stable":              gaugeOf(groupsMetric+"stable", "Those whose members have their assignments."),
	}
)

const groupsMetric = "kafka_coordinator_group_groupmetadatamanager_numgroups"

// groupsTimeout bounds how long a scrape waits for a coordinator that is busy, or whose
// partition is not in sync.
const groupsTimeout = time.Second

// registerGroups names the numbers of the groups that are coordinated here.
func (g *gauges) registerGroups(m *telemetry.Metrics) {
	families := []*telemetry.Family{groupCount, offsetCount, groupMembers}
	for _, state := range []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"} {
		families = append(families, groupStates[state])
	}
	m.Collect(func(emit telemetry.Emit) {
		if h := g.half.Load(); h != nil {
			emitGroups(h.groups, emit)
		}
	}, families...)
}

func emitGroups(groups *coordinator.Coordinator, emit telemetry.Emit) {
	ctx, cancel := context.WithTimeout(context.Background(), groupsTimeout)
	defer cancel()
	total, offsets, states := 0, 0, make(map[string]int)
	for _, call := range groups.SubmitAll(group.Count{}) {
		answer, err := call.Wait(ctx)
		c, ok := answer.(group.Census)
		if err != nil || !ok {
			continue // it is loading, or another's by now
		}
		offsets += c.Offsets
		for state, n := range c.States {
			total += n
			states[state] += n
		}
		for name, n := range c.Members {
			emit(groupMembers, float64(n), "group", name)
		}
	}
	emit(groupCount, float64(total))
	emit(offsetCount, float64(offsets))
	for state, family := range groupStates {
		emit(family, float64(states[state]))
	}
}
