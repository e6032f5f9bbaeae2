package node

import (
	"sync"

	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/telemetry"
)

// registerQuorum names who leads, the numbers of a controller, and those of the
// cluster as each controller knows it; the latter two of a node that is none stay 0.
func (g *gauges) registerQuorum(m *telemetry.Metrics) {
	of := func(read func(*quorum) float64) func() float64 {
		return func() float64 {
			if q := g.quorum.Load(); q != nil {
				return read(q)
			}
			return 0
		}
	}
	m.Gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 on the active controller, 0 elsewhere.",
		of(func(q *quorum) float64 {
			if l, _ := q.engine.Leadership(); l.Leading {
				return 1
			}
			return 0
		}))
	m.Gauge("kafka_server_raft_metrics_current_leader", "Id of the active controller; -1 while there is none.",
		func() float64 {
			leader, _ := g.leadership()
			return float64(leader)
		})
	m.Gauge("kafka_server_raft_metrics_current_epoch", "Epoch of the active controller, or of the last one.",
		func() float64 {
			_, epoch := g.leadership()
			return float64(epoch)
		})
	const elections, fenced = "klamm_quorum_elections_by_evidence_total", "klamm_controller_fenced_brokers_total"
	m.Counter(elections, "Elections that this node started because the leader's process was gone.",
		of(func(q *quorum) float64 { return float64(q.engine.ElectionsByEvidence()) }))
	const help = "Brokers that this controller fenced, by what told that they were gone: the end of their process, or silence until the session was over."
	m.Counter(fenced, help, of(func(q *quorum) float64 { return float64(q.controller.FencedByEvidence()) }), "by", "evidence")
	m.Counter(fenced, help, of(func(q *quorum) float64 { return float64(q.controller.FencedByTimeout()) }), "by", "timeout")

	m.Counter("kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
		"Leaders out of the eligible leader replicas that this controller has seen elected; nothing is lost by them.",
		of(func(q *quorum) float64 { return float64(q.controller.EligibleElections()) }))
	m.Counter("kafka_controller_controllerstats_uncleanleaderelections_total",
		"Leaders who may have lost records that this controller has seen elected.",
		of(func(q *quorum) float64 { return float64(q.controller.UncleanElections()) }))

	m.Counter("kafka_controller_controllerstats_leaderelectionrateandtimems_count",
		"Leaders that this controller has seen elected, whatever for.",
		of(func(q *quorum) float64 { return float64(q.controller.Elections()) }))

	c := census{offset: -1}
	for _, number := range []struct {
		name, help string
		of         func(cluster.Counts) int
	}{
		{"activebrokercount", "Brokers that are not fenced.", func(c cluster.Counts) int { return c.Active }},
		{"fencedbrokercount", "Brokers that are fenced.", func(c cluster.Counts) int { return c.Fenced }},
		{"globaltopiccount", "Topics.", func(c cluster.Counts) int { return c.Topics }},
		{"globalpartitioncount", "Partitions.", func(c cluster.Counts) int { return c.Partitions }},
		{"offlinepartitionscount", "Partitions that nobody leads.", func(c cluster.Counts) int { return c.Offline }},
		{"preferredreplicaimbalancecount", "Partitions that another than their first replica leads.", func(c cluster.Counts) int { return c.Imbalanced }},
	} {
		m.Gauge("kafka_controller_kafkacontroller_"+number.name, number.help, func() float64 {
			r := g.replayer.Load()
			if r == nil || g.quorum.Load() == nil {
				return 0
			}
			return float64(number.of(c.take(r)))
		})
	}
}

// leadership is the active controller as this node knows it, with a vote or without.
func (g *gauges) leadership() (protocol.NodeID, protocol.ControllerEpoch) {
	if q := g.quorum.Load(); q != nil {
		l, _ := q.engine.Leadership()
		return l.Leader, l.Epoch
	}
	if f := g.follower.Load(); f != nil {
		leader, epoch, _ := f.Leadership()
		return leader, epoch
	}
	return protocol.NoNode, 0
}

// census is what was counted last, for all who ask within one scrape.
type census struct {
	mu     sync.Mutex
	offset int64 // of the image that was counted; images of one offset are the same
	counts cluster.Counts
}

func (c *census) take(r *replay.Replayer) cluster.Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if img := r.Image(); img.Offset() != c.offset {
		c.offset, c.counts = img.Offset(), img.Count()
	}
	return c.counts
}
