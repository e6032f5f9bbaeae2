package node

import (
	"fmt"
	"strconv"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/telemetry"
)

func gaugeOf(name, help string) *telemetry.Family { return &telemetry.Family{Name: name, Help: help} }

func counterOf(name, help string) *telemetry.Family {
	return &telemetry.Family{Name: name, Help: help, Counter: true}
}

// What ReplicaManager, its fetchers and partitions have in Kafka.
var (
	partitionCount  = gaugeOf("kafka_server_replicamanager_partitioncount", "Replicas on this broker.")
	leaderCount     = gaugeOf("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.")
	offlineReplicas = gaugeOf("kafka_server_replicamanager_offlinereplicacount", "Replicas here whose log can not be used.")
	underReplicated = gaugeOf("kafka_server_replicamanager_underreplicatedpartitions", "Partitions led here that have fewer replicas in sync than are assigned.")
	underMinISR     = gaugeOf("kafka_server_replicamanager_underminisrpartitioncount", "Partitions led here that have fewer replicas in sync than min.insync.replicas: acks=all is refused.")
	atMinISR        = gaugeOf("kafka_server_replicamanager_atminisrpartitioncount", "Partitions led here that have just as many: one less and acks=all is refused.")
	reassigning     = gaugeOf("kafka_server_replicamanager_reassigningpartitions", "Partitions led here that are being moved.")
	isrShrinks      = counterOf("kafka_server_replicamanager_isrshrinks_total", "In-sync sets that a leader here has made smaller.")
	isrExpands      = counterOf("kafka_server_replicamanager_isrexpands_total", "In-sync sets that a leader here has made larger.")
	failedISR       = counterOf("kafka_server_replicamanager_failedisrupdates_total", "Changes of in-sync sets that the controller did not take up.")
	maxLag          = gaugeOf("kafka_server_replicafetchermanager_maxlag", "The most records that a replica here lacks of what its leader has committed.")
	replicaLag      = gaugeOf("kafka_server_fetcherlagmetrics_consumerlag", "Records that a replica here lacks of what its leader has committed.")
	oneReplicated   = gaugeOf("kafka_cluster_partition_underreplicated", "1 for each partition that underreplicatedpartitions counts.")
	oneMinISR       = gaugeOf("kafka_cluster_partition_underminisr", "1 for each partition that underminisrpartitioncount counts.")
)

// trafficOf are the counts of BrokerTopicMetrics: without a label those of all topics.
var trafficOf = []struct {
	count  replica.Count
	family *telemetry.Family
}{
	{replica.BytesIn, brokerTopic("bytesin", "Bytes that producers wrote.")},
	{replica.BytesOut, brokerTopic("bytesout", "Bytes that consumers read.")},
	{replica.MessagesIn, brokerTopic("messagesin", "Records that producers wrote.")},
	{replica.Rejected, brokerTopic("bytesrejected", "Bytes of batches that were too large.")},
	{replica.Produces, brokerTopic("totalproducerequests", "Produce requests, once for each partition in them.")},
	{replica.ProducesFailed, brokerTopic("failedproducerequests", "Those that failed for another reason than a leader who is elsewhere or a batch that is too large or damaged.")},
	{replica.Fetches, brokerTopic("totalfetchrequests", "Answers to fetches, once for each partition in them.")},
	{replica.FetchesFailed, brokerTopic("failedfetchrequests", "Those that failed for a reason that the protocol does not foresee.")},
	{replica.BadCRC, brokerTopic("invalidmessagecrcrecords", "Batches whose bytes are not those of their checksum.")},
	{replica.BadMagic, brokerTopic("invalidmagicnumberrecords", "Batches of another format than version 2.")},
	{replica.ReplicatedIn, brokerTopic("replicationbytesin", "Bytes that replicas here fetched from their leaders.")},
	{replica.ReplicatedOut, brokerTopic("replicationbytesout", "Bytes that other replicas fetched from leaders here.")},
	{replica.ReassignedIn, brokerTopic("reassignmentbytesin", "Those of them for replicas that are being added here.")},
	{replica.ReassignedOut, brokerTopic("reassignmentbytesout", "Those of them for replicas that are being added elsewhere.")},
}

func brokerTopic(name, help string) *telemetry.Family {
	return counterOf("kafka_server_brokertopicmetrics_"+name+"_total", help)
}

// What kafka.log has of each log and directory.
var (
	logEnd     = gaugeOf("kafka_log_log_logendoffset", "The offset that the next record gets.")
	logStart   = gaugeOf("kafka_log_log_logstartoffset", "The first offset that is there.")
	logSize    = gaugeOf("kafka_log_log_size", "Bytes of records.")
	offlineDir = gaugeOf("kafka_log_logmanager_logdirectoryoffline", "1 for a log directory that is out of service.")
)

// registerReplicas names the numbers of a broker's replicas; a node without has none.
func (g *gauges) registerReplicas(m *telemetry.Metrics) {
	families := []*telemetry.Family{
		partitionCount, leaderCount, offlineReplicas, underReplicated, underMinISR, atMinISR, reassigning,
		isrShrinks, isrExpands, failedISR, maxLag, replicaLag, oneReplicated, oneMinISR,
	}
	for _, t := range trafficOf {
		families = append(families, t.family)
	}
	m.Collect(func(emit telemetry.Emit) {
		if h := g.half.Load(); h != nil {
			emitReplicas(h.replicas, emit)
		}
	}, families...)
	m.Collect(func(emit telemetry.Emit) {
		if h := g.half.Load(); h != nil {
			h.emitLogs(emit)
		}
	}, logEnd, logStart, logSize, offlineDir)
}

func emitReplicas(replicas *replica.Manager, emit telemetry.Emit) {
	s := replicas.Stats()
	for family, n := range map[*telemetry.Family]int{
		partitionCount: s.Partitions, leaderCount: s.Leaders, offlineReplicas: s.Offline, reassigning: s.Reassigning,
		underReplicated: len(s.UnderReplicated), underMinISR: len(s.UnderMinISR), atMinISR: s.AtMinISR,
	} {
		emit(family, float64(n))
	}
	shrinks, expands, failed := replicas.ISRChanges()
	emit(isrShrinks, float64(shrinks))
	emit(isrExpands, float64(expands))
	emit(failedISR, float64(failed))
	emit(maxLag, float64(s.MaxLag), "clientId", "Replica")
	for _, lag := range s.Lags {
		emit(replicaLag, float64(lag.Records), append(labelsOf(lag.TopicPartition), "clientId", fmt.Sprintf("ReplicaFetcherThread-0-%d", lag.Leader))...)
	}
	for family, tps := range map[*telemetry.Family][]protocol.TopicPartition{oneReplicated: s.UnderReplicated, oneMinISR: s.UnderMinISR} {
		for _, tp := range tps {
			emit(family, 1, labelsOf(tp)...)
		}
	}
	for _, t := range trafficOf {
		emit(t.family, float64(replicas.Traffic().Of(t.count)))
		for _, topic := range s.Topics {
			if n, ok := topic.Of(t.count); ok && n > 0 {
				emit(t.family, float64(n), "topic", topic.Topic)
			}
		}
	}
}

func labelsOf(tp protocol.TopicPartition) []string {
	return []string{"topic", tp.Topic, "partition", strconv.Itoa(int(tp.Partition))}
}

func (h *brokerHalf) emitLogs(emit telemetry.Emit) {
	for tp, log := range h.store.Logs() {
		labels := labelsOf(tp)
		emit(logEnd, float64(log.LEO()), labels...)
		emit(logStart, float64(log.LogStartOffset()), labels...)
		emit(logSize, float64(log.Size()), labels...)
	}
	for _, dir := range h.store.Dirs() {
		offline := 0.0
		if dir.Err() != nil {
			offline = 1
		}
		emit(offlineDir, offline, "logDirectory", dir.Path())
	}
}
