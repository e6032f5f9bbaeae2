package node

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/klamm/klamm/broker"
	"github.com/klamm/klamm/metadata/follower"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/telemetry"
)

// gauges are what the metrics ask, each nil until it is there: metrics are
// served from the start on, so that a start can be watched.
type gauges struct {
	broker   atomic.Pointer[broker.Broker]
	half     atomic.Pointer[brokerHalf] // once its logs are loaded
	quorum   atomic.Pointer[quorum]
	follower atomic.Pointer[follower.Follower] // where there is no quorum
	replayer atomic.Pointer[replay.Replayer]
}

// serveMetrics serves the metrics where the configuration names a listener
// (klamm.metrics.listener). A listener that fails later costs the metrics, not
// the node.
func (n *node) serveMetrics(ctx context.Context, version string) (*stage, error) {
	s := newStage(ctx)
	address := n.cfg.Telemetry.MetricsListener
	if address == "" {
		return s, nil
	}
	m := telemetry.New(version)
	n.gauges.register(m)
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: klamm.metrics.listener: %w", n.cfg.File, err)
	}
	s.run("metrics", func(ctx context.Context) error {
		if err := m.Serve(ctx, ln); err != nil {
			n.log.Error().Err(err).Str("listener", address).Msg("metrics are not served any more")
		}
		<-ctx.Done()
		return nil
	})
	n.log.Info().Stringer("listener", ln.Addr()).Msg("metrics are served")
	return s, nil
}

// register names every number of the node. Names are those of Kafka's beans.
func (g *gauges) register(m *telemetry.Metrics) {
	m.Gauge("kafka_server_kafkaserver_brokerstate",
		"0 not running, 1 starting, 2 recovery, 3 running, 6 pending controlled shutdown, 7 shutting down.",
		func() float64 {
			if b := g.broker.Load(); b != nil {
				return float64(b.State())
			}
			return float64(broker.NotRunning)
		})
	g.registerQuorum(m)
	g.registerReplicas(m)
	g.registerGroups(m)
	m.Gauge("kafka_server_broker_metadata_metrics_last_applied_record_offset",
		"Offset of the last metadata record that the broker has acted on.",
		func() float64 {
			if b := g.broker.Load(); b != nil {
				return float64(b.Image().Offset())
			}
			return -1
		})
	m.Labelled("klamm_metadata_snapshot_digest",
		"Offset of the last metadata snapshot that this process wrote. At one offset the digest is the same on every node.", "digest",
		func() (string, float64, bool) {
			r := g.replayer.Load()
			if r == nil {
				return "", 0, false
			}
			d, ok := r.Digest()
			return d.Sum, float64(d.Offset), ok
		})
}
