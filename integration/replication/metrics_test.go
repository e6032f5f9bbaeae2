//go:build integration

package replication

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
)

// What the metrics say while replicas lag, die, and come back, and where the series of a
// topic are (B201: they stayed on brokers that lead nothing of it any more).
func TestMetrics(t *testing.T) {
	w := start(t, harness.WithMetrics, "replica.lag.time.max.ms=1000", "broker.session.timeout.ms=60000", "auto.leader.rebalance.enable=false")
	await := func(id int32, series string, ok func(float64) bool) {
		t.Helper()
		w.Await(fmt.Sprintf("%s at node %d", series, id), func() bool {
			all, served := w.Node(id).Metrics()
			value, there := all[series]
			return served && there && ok(value)
		})
	}
	is := func(want float64) func(float64) bool { return func(got float64) bool { return got == want } }
	least := func(want float64) func(float64) bool { return func(got float64) bool { return got >= want } }
	vanished := func(id int32, series string) {
		t.Helper()
		w.Await(fmt.Sprintf("no %s at node %d", series, id), func() bool {
			all, served := w.Node(id).Metrics()
			_, there := all[series]
			return served && !there
		})
	}
	const manager, bytesIn = "kafka_server_replicamanager_", `kafka_server_brokertopicmetrics_bytesin_total{topic="t"}`

	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	w.Produce("t", "a", "b", "c")
	leader := w.Leader("t")
	followers := w.Others(leader)
	await(leader, manager+"leadercount", is(1))
	await(leader, manager+"underreplicatedpartitions", is(0))
	await(leader, bytesIn, least(1))
	for _, id := range followers {
		await(id, manager+"leadercount", is(0))
		await(id, manager+"partitioncount", is(1))
		await(id, "kafka_server_brokertopicmetrics_replicationbytesin_total", least(1))
		await(id, fmt.Sprintf(`kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-%d",partition="0",topic="t"}`, leader), is(0))
		vanished(id, bytesIn)
	}

	// A follower stands still, and goes on.
	slow := followers[0]
	if slow == w.Controller() {
		slow = followers[1]
	}
	w.Node(slow).Signal(syscall.SIGSTOP)
	w.Produce("t", "d")
	await(leader, manager+"underreplicatedpartitions", is(1))
	await(leader, `kafka_cluster_partition_underreplicated{partition="0",topic="t"}`, is(1))
	await(leader, manager+"atminisrpartitioncount", is(1))
	await(leader, manager+"isrshrinks_total", least(1))
	w.Node(slow).Signal(syscall.SIGCONT)
	await(leader, manager+"underreplicatedpartitions", is(0))
	await(leader, manager+"isrexpands_total", least(1))
	vanished(leader, `kafka_cluster_partition_underreplicated{partition="0",topic="t"}`)

	// Another one leads from now on.
	w.AwaitISR("t", 1, 2, 3)
	w.Node(leader).Stop()
	w.AwaitISR("t", followers...)
	w.Produce("t", "e")
	w.Node(leader).Restart()
	w.AwaitISR("t", 1, 2, 3)
	next := w.Leader("t")
	await(next, bytesIn, least(1))
	await(next, manager+"leadercount", is(1))
	vanished(leader, bytesIn)
	await(w.Controller(), "kafka_controller_kafkacontroller_offlinepartitionscount", is(0))
	for _, id := range w.Others(leader) { // which has seen nothing
		await(id, "kafka_controller_controllerstats_leaderelectionrateandtimems_count", least(1))
		await(id, "kafka_controller_controllerstats_uncleanleaderelections_total", is(0))
	}
}
