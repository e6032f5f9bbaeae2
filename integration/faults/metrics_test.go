//go:build integration

package faults

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

func skipOnKafka(t *testing.T) {
	t.Helper()
	if onKafka {
		t.Skip("Apache Kafka serves its metrics elsewhere")
	}
}

// metric is one number that a node serves; 0 where it does not.
func metric(n *harness.Node, series string) float64 {
	all, _ := n.Metrics()
	return all[series]
}

// TestB194MembersAreCountedOnce: static members of a group were counted twice. The
// number of members is that of DescribeGroups.
func TestB194MembersAreCountedOnce(t *testing.T) {
	t.Parallel()
	skipOnKafka(t)
	n := ownNode(t, harness.WithMetrics)
	group := unique(t, "group")
	one, two, three := newMember(t, n, group), newMember(t, n, group), newMember(t, n, group)
	one.instance, two.instance = "first", "second"
	gather(one, two, three)
	settle(one, two, three)
	described := len(describeGroup(dial(t, n.Address), group).Members)
	if got := metric(n, `klamm_group_members{group="`+group+`"}`); got != 3 || described != 3 {
		t.Errorf("%v members are counted, %d described, want 3", got, described)
	}
	for _, series := range []string{"", "stable"} {
		if got := metric(n, "kafka_coordinator_group_groupmetadatamanager_numgroups"+series); got != 1 {
			t.Errorf("numgroups%s is %v, want 1", series, got)
		}
	}
	topic := createTopic(one.conn)
	wantCode(t, "commit", one.commit(topic, 5), protocol.None)
	if got := metric(n, "kafka_coordinator_group_groupmetadatamanager_numoffsets"); got != 1 {
		t.Errorf("%v offsets, want 1", got)
	}
}

// TestB197BrokerState: the state of a broker stood at not running. It is shown in all
// that a broker goes through.
func TestB197BrokerState(t *testing.T) {
	t.Parallel()
	skipOnKafka(t)
	kinds := []harness.Kind{harness.Klamm}
	c := harness.StartSplit(t, kinds, kinds, slices.Concat(nodeSettings, []string{harness.WithMetrics})...)
	broker, controller := c.Nodes[0], c.Controllers[0]
	conn := dial(t, broker.Address)
	many := newTopic(unique(t, "many"))
	many.NumPartitions = 600
	wantCode(t, "creation", askCreateTopic(conn, many, false).ErrorCode, protocol.None)
	seen := make(map[float64]bool)
	look := func(until float64) func() bool {
		return func() bool {
			// As fast as it goes: some states are short.
			for range 100 {
				if all, ok := broker.Metrics(); ok {
					seen[all["kafka_server_kafkaserver_brokerstate"]] = true
				}
				if seen[until] {
					return true
				}
			}
			return false
		}
	}
	// Its recovery takes a moment, which whoever looks may sleep through.
	for tries := 0; tries < 20 && !seen[2]; tries++ {
		broker.Kill()
		broker.Launch()
		delete(seen, 3)
		eventually(t, "running", look(3))
	}
	// Who does not let it go keeps it from ending its controlled shutdown.
	controller.Signal(syscall.SIGSTOP)
	broker.Signal(syscall.SIGTERM)
	eventually(t, "on its way down", look(6))
	controller.Signal(syscall.SIGCONT)
	broker.End(syscall.SIGCONT) // which only waits for it
	for state, name := range map[float64]string{2: "recovery", 3: "running", 6: "pending controlled shutdown"} {
		if !seen[state] {
			t.Errorf("%s was not shown, only %v", name, seen)
		}
	}
}

// TestB200FlippedBitsAreCounted: some batches that do not match their CRC were not counted.
func TestB200FlippedBitsAreCounted(t *testing.T) {
	t.Parallel()
	skipOnKafka(t)
	n := ownNode(t, harness.WithMetrics)
	c := dial(t, n.Address)
	topic := createTopic(c)
	for range 3 {
		data := records(batch.Options{}, "abc")
		data[batch.HeaderSize+5] ^= 0x10
		wantCode(t, "produce", produce(c, topic, data).ErrorCode, protocol.ErrCorruptMessage)
	}
	wantCode(t, "produce", produce(c, topic, records(batch.Options{}, "a", "b")).ErrorCode, protocol.None)
	all, _ := n.Metrics()
	of := `{topic="` + topic + `"}`
	for series, want := range map[string]float64{
		"kafka_server_brokertopicmetrics_invalidmessagecrcrecords_total":     3,
		"kafka_server_brokertopicmetrics_messagesin_total" + of:              2,
		"kafka_server_brokertopicmetrics_totalproducerequests_total" + of:    4,
		"kafka_server_brokertopicmetrics_failedproducerequests_total" + of:   0,
		"kafka_server_replicamanager_leadercount":                            1,
		`kafka_log_log_logendoffset{partition="0",topic="` + topic + `"}`:    2,
		"kafka_server_brokertopicmetrics_messagesin_total":                   2,
		"kafka_server_replicamanager_underreplicatedpartitions":              0,
		"kafka_server_replicamanager_atminisrpartitioncount":                 1,
		"kafka_controller_kafkacontroller_globalpartitioncount":              1,
		"kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total":    0,
		`kafka_server_replicafetchermanager_maxlag{clientId="Replica"}`:      0,
		"kafka_controller_controllerstats_leaderelectionrateandtimems_count": 0,
		"kafka_server_brokertopicmetrics_replicationbytesin_total":           0,
		"kafka_server_brokertopicmetrics_bytesrejected_total":                0,
		"kafka_server_brokertopicmetrics_totalfetchrequests_total":           0,
		"kafka_server_replicamanager_offlinereplicacount":                    0,
		"kafka_server_replicamanager_failedisrupdates_total":                 0,
		"kafka_coordinator_group_groupmetadatamanager_numgroups":             0,
	} {
		if got := all[series]; got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// TestB201SeriesVanish: a topic that is gone had its series for ever. See also
// integration/replication, where leaders move.
func TestB201SeriesVanish(t *testing.T) {
	t.Parallel()
	skipOnKafka(t)
	n := ownNode(t, harness.WithMetrics)
	c := dial(t, n.Address)
	topic := createTopic(c)
	wantCode(t, "produce", produce(c, topic, records(batch.Options{}, "a")).ErrorCode, protocol.None)
	bytesIn := `kafka_server_brokertopicmetrics_bytesin_total{topic="` + topic + `"}`
	before := metric(n, bytesIn)
	if before == 0 {
		t.Errorf("%s is 0", bytesIn)
	}
	deleteTopic(c, topic)
	eventually(t, "no series of the topic", func() bool {
		all, _ := n.Metrics()
		for series := range all {
			if strings.Contains(series, topic) {
				return false
			}
		}
		return true
	})
	if got := metric(n, "kafka_server_brokertopicmetrics_bytesin_total"); got != before {
		t.Errorf("of all topics %v bytes came in, want %v", got, before)
	}
}
