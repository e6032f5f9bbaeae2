package config

import (
	"time"

	"github.com/klamm/klamm/protocol"
)

// Config is a node's configuration: one struct per component, from Kafka's
// keys. A Config does not change after Load or Parse has returned it.
type Config struct {
	// File is where it was read from, for messages.
	File string

	Node       Node
	Listeners  Listeners
	Quorum     Quorum
	Dirs       Dirs
	Metadata   Metadata
	Topics     Topics
	Controller Controller
	Broker     Broker
	Replicas   Replicas
	Groups     Groups
	Network    Network
	Storage    Storage
	Telemetry  Telemetry
	// Dynamic is what can change at run time, as the file has it.
	Dynamic Dynamic

	// Static is what the file sets, as it is written there: the layer
	// FromFile, and what DescribeConfigs shows of it.
	Static map[string]string

	// What a reader of the log should know, once: keys that Kafka does not
	// have, keys that it has and that change nothing here yet, and keys that
	// were given more than once, where the last one counts. Each is sorted.
	Unknown, Unused, Repeated []string
}

// Node is who the node is.
type Node struct {
	// ID (node.id, or broker.id as it was once called) is unique among
	// brokers and controllers. No default.
	ID protocol.NodeID
	// IsBroker and IsController are process.roles.
	IsBroker, IsController bool
	// Rack (broker.rack) spreads replicas. Empty: none.
	Rack string
}

// Dirs are the places on disk.
type Dirs struct {
	// Log (log.dirs, else log.dir) hold the partitions. More of them, on
	// more disks, mean more throughput and more that can fail. Default
	// /tmp/kafka-logs, as in Kafka: set it.
	Log []string
	// Metadata (metadata.log.dir) holds the metadata log. Default: the first
	// of Log.
	Metadata string
}

// All gives every directory that must be formatted, the metadata log's first.
func (d Dirs) All() []string {
	dirs := []string{d.Metadata}
	for _, dir := range d.Log {
		if dir != d.Metadata {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Metadata is how the metadata log is kept.
type Metadata struct {
	// SegmentBytes, SegmentAge (metadata.log.segment.bytes, .ms): when a
	// segment of the metadata log is closed. Defaults 1 GiB and 7 days.
	SegmentBytes int32
	SegmentAge   time.Duration
	// SnapshotBytes (metadata.log.max.record.bytes.between.snapshots): bytes
	// of records after which a snapshot is taken. More means fewer
	// snapshots and a longer replay at a start. Default 20 MiB.
	SnapshotBytes int64
	// SnapshotInterval (metadata.log.max.snapshot.interval.ms): a snapshot
	// is taken after this time if there is anything new. Default 1 h, 0:
	// only by size.
	SnapshotInterval time.Duration
	// IdleInterval (metadata.max.idle.interval.ms): how often the active
	// controller writes a NoOp record when there is nothing else, so that
	// observers can tell a quiet log from a dead one. Default 500 ms, 0: never.
	IdleInterval time.Duration
	// RetentionBytes, RetentionAge (metadata.max.retention.bytes, .ms): how
	// much of the log behind the latest snapshot is kept. Defaults 100 MiB
	// and 7 days.
	RetentionBytes int64
	RetentionAge   time.Duration
}

// Topics are the defaults of topics that say nothing themselves.
type Topics struct {
	// NumPartitions (num.partitions): of a topic created without a count.
	// Default 1.
	NumPartitions int32
	// ReplicationFactor (default.replication.factor). Default 1.
	ReplicationFactor int16
	// AutoCreate (auto.create.topics.enable): asking for a topic's metadata
	// creates it. Convenient, and every misspelt name becomes a topic.
	// Default true, as in Kafka.
	AutoCreate bool
	// Delete (delete.topic.enable): topics may be deleted. Default true.
	Delete bool
}

// Controller is the controller's side.
type Controller struct {
	// SessionTimeout (broker.session.timeout.ms): a broker without a
	// heartbeat for so long is fenced. Shorter finds dead hosts sooner and
	// fences slow ones by mistake. Default 9 s.
	SessionTimeout time.Duration
	// RebalanceInterval (leader.imbalance.check.interval.seconds): how often
	// leaderships are given back to the preferred replicas; 0 where
	// auto.leader.rebalance.enable is false. Default 300 s.
	RebalanceInterval time.Duration
	// UncleanInterval (unclean.leader.election.interval.ms): how often partitions
	// without a leader are given one that may have lost records, where
	// unclean.leader.election.enable allows it. Default 5 min.
	UncleanInterval time.Duration
	// FastFailureDetection (klamm.fast.failure.detection): a process that is
	// seen to be gone, because its connections ended and its port refuses, is
	// replaced or fenced at once. False leaves it to the timeouts, as in Kafka.
	// Default true.
	FastFailureDetection bool
}

// Broker is the broker's side.
type Broker struct {
	// HeartbeatInterval (broker.heartbeat.interval.ms). Default 2 s.
	HeartbeatInterval time.Duration
	// RegistrationTimeout (initial.broker.registration.timeout.ms): how long
	// a start may try to register before it fails. Default 60 s.
	RegistrationTimeout time.Duration
	// ControlledShutdown (controlled.shutdown.enable): leaderships are moved
	// away before the node stops. Default true.
	ControlledShutdown bool
	// FetchSessions (max.incremental.fetch.session.cache.slots): incremental
	// fetch sessions that are kept; a client beyond it sends full fetches.
	// Default 1000.
	FetchSessions int
	// FetchMaxBytes (fetch.max.bytes): the most that one fetch is answered,
	// whatever it asks for. Default 55 MiB.
	FetchMaxBytes int32
	// RackAware (replica.selector.class names Kafka's RackAwareReplicaSelector):
	// a consumer that says where it stands (client.rack) is sent to an in-sync
	// replica there. Cheaper to read, and a moment later than at the leader.
	// Default false, Kafka's LeaderSelector.
	RackAware bool
	// RequestTimeout (request.timeout.ms) bounds a request to a peer. Default 30 s.
	RequestTimeout time.Duration
}

// Replicas is how partitions are kept the same on several brokers.
type Replicas struct {
	// LagTime (replica.lag.time.max.ms): a follower that has not been caught up
	// for so long leaves the ISR. Shorter lets acks=all go on sooner without a
	// slow follower, and keeps less of them. Default 30 s.
	LagTime time.Duration
	// Fetchers (num.replica.fetchers) is how many pull from one broker. Default 1.
	Fetchers int
	// FetchWait and FetchMinBytes (replica.fetch.wait.max.ms,
	// replica.fetch.min.bytes): for how long, and for how much, a leader holds a
	// follower's fetch. Defaults 500 ms and 1.
	FetchWait     time.Duration
	FetchMinBytes int32
	// FetchBytes and ResponseBytes (replica.fetch.max.bytes,
	// replica.fetch.response.max.bytes) bound what a fetch brings of a partition,
	// and in all; the first batch comes whole even so. Defaults 1 MiB and 10 MiB.
	FetchBytes, ResponseBytes int32
	// FetchBackoff (replica.fetch.backoff.ms) is the rest after a failure.
	// Default 1 s.
	FetchBackoff time.Duration
	// QuotaWindows and QuotaWindow (replication.quota.window.num,
	// replication.quota.window.size.seconds): over how long together a throttled rate
	// is an average; what one of them allows may go at once. Defaults 11 and 1 s.
	QuotaWindows int
	QuotaWindow  time.Duration
}

// Groups are what the coordinators of groups go by.
type Groups struct {
	// InitialRebalanceDelay (group.initial.rebalance.delay.ms): how long the
	// first member of an empty group waits for more. Longer spares a starting
	// fleet rebalances, and starts later. Default 3 s.
	InitialRebalanceDelay time.Duration
	// MinSessionTimeout and MaxSessionTimeout (group.min.session.timeout.ms,
	// group.max.session.timeout.ms) bound what members ask for. Default 6 s
	// and 30 min.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// MaxSize (group.max.size) bounds a group's members. Default: no bound.
	MaxSize int
	// OffsetMetadataBytes (offset.metadata.max.bytes) bounds the text beside a
	// committed offset. Default 4096.
	OffsetMetadataBytes int
	// OffsetsRetention (offsets.retention.minutes): how long the offsets of a
	// group without members are kept. Default 7 days.
	OffsetsRetention time.Duration
	// OffsetsCheckInterval (offsets.retention.check.interval.ms): how often
	// what has expired is removed. Default 10 min.
	OffsetsCheckInterval time.Duration
	// CommitTimeout (offsets.commit.timeout.ms): how long a change may take to
	// reach the in-sync replicas before its client is told to ask again.
	// Default 5 s.
	CommitTimeout time.Duration
	// LoadBytes (offsets.load.buffer.size) is read at a time when a partition
	// of offsets is taken over. Default 5 MiB.
	LoadBytes int
	// OffsetsPartitions, OffsetsReplicas and OffsetsSegmentBytes
	// (offsets.topic.num.partitions, offsets.topic.replication.factor,
	// offsets.topic.segment.bytes) are those of __consumer_offsets, once it is
	// created. Default 50, 3 and 100 MiB.
	OffsetsPartitions   int32
	OffsetsReplicas     int16
	OffsetsSegmentBytes int32
}

// Network is what bounds connections and requests.
type Network struct {
	// MaxRequestBytes (socket.request.max.bytes): a larger frame closes its
	// connection. Default 100 MiB.
	MaxRequestBytes int32
	// MaxQueuedBytes (queued.max.request.bytes): memory of requests that are
	// read and not yet handled, over all connections. Default −1: no bound
	// beyond that of each connection.
	MaxQueuedBytes int64
	// IdleTimeout (connections.max.idle.ms): a connection without a request
	// for so long is closed. Default 10 min; negative: never.
	IdleTimeout time.Duration
	// SendBuffer, ReceiveBuffer (socket.send.buffer.bytes,
	// socket.receive.buffer.bytes): of the socket; −1 is the system's
	// choice. Default here: the system's choice, which grows by itself,
	// where Kafka fixes 100 KiB. Only a value in the file is applied.
	SendBuffer, ReceiveBuffer int
	// Backlog (socket.listen.backlog.size): connections that the system
	// completes before they are accepted. Default here: 0, the system's most,
	// where Kafka takes 50. Only a value in the file is applied.
	Backlog int
}

// Storage is how logs are kept, apart from what a topic says.
type Storage struct {
	// CheckpointInterval (log.flush.offset.checkpoint.interval.ms): how
	// often the recovery points are written; what lies behind them is not
	// read after a crash. Default 60 s.
	CheckpointInterval time.Duration
	// StartOffsetInterval (log.flush.start.offset.checkpoint.interval.ms):
	// the same for log start offsets. Default 60 s.
	StartOffsetInterval time.Duration
	// HighWatermarkInterval (replica.high.watermark.checkpoint.interval.ms):
	// the same for high watermarks. Default 5 s.
	HighWatermarkInterval time.Duration
	// ProducerExpirationCheck (producer.id.expiration.check.interval.ms): how
	// often silent producers are looked for. Default 10 min.
	ProducerExpirationCheck time.Duration
	// RetentionInterval (log.retention.check.interval.ms): how often logs are
	// looked at for what their topics do not keep. Default 5 min.
	RetentionInterval time.Duration
}
