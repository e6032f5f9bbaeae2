package config

import "slices"

// Topic is what a topic's configs say, parsed: all that a partition's log and
// its leader need. Sizes are bytes, times milliseconds as in Kafka; the
// default of each field is that of its key.
type Topic struct {
	// segment.bytes, segment.ms, segment.jitter.ms: when a segment is closed.
	// internal.segment.bytes, where set, takes the place of segment.bytes.
	SegmentBytes    int32
	SegmentMs       int64
	SegmentJitterMs int64
	// segment.index.bytes, index.interval.bytes: size and density of indexes.
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	// flush.messages, flush.ms: when the log is synced. The maximum of int64,
	// the default, leaves it to the operating system.
	FlushMessages int64
	FlushMs       int64
	// retention.bytes, retention.ms: -1 is no limit.
	RetentionBytes int64
	RetentionMs    int64
	// file.delete.delay.ms: between renaming a dead file and removing it.
	FileDeleteDelayMs int64
	Preallocate       bool

	// cleanup.policy. Both false: keep everything.
	Delete, Compact bool
	// delete.retention.ms, min.compaction.lag.ms, max.compaction.lag.ms,
	// min.cleanable.dirty.ratio: what the cleaner may touch, and when.
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	// max.message.bytes: largest batch, as it is sent.
	MaxMessageBytes             int32
	MaxDecompressedMessageBytes int32
	// compression.type: producer keeps the producer's codec.
	CompressionType string
	// compression.gzip.level, compression.lz4.level, compression.zstd.level
	GzipLevel, Lz4Level, ZstdLevel int32
	// message.timestamp.type is LogAppendTime.
	LogAppendTime bool
	// message.timestamp.before.max.ms, message.timestamp.after.max.ms: how far
	// a record's time may lie from now.
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64

	// min.insync.replicas: below it, acks=all is refused.
	MinInsyncReplicas           int32
	UncleanLeaderElectionEnable bool

	// leader.replication.throttled.replicas, follower.replication.throttled.replicas:
	// PARTITION:BROKER items, or "*", whose replication is held to a rate.
	LeaderThrottled, FollowerThrottled []string

	// producer.id.expiration.ms, which only brokers have: the state of a producer
	// that is silent for so long is forgotten.
	ProducerIDExpirationMs int64
}

// ResolveTopic parses the values that count for a topic. Values that are in an
// image were checked when they were set; should one not parse all the same
// (another version wrote it), the key's default stands in for it.
func ResolveTopic(layers Layers) Topic {
	get := func(name string) Value {
		key := topicIndex[name]
		set := key.Resolve(layers)
		if set.Null {
			return Value{}
		}
		value, err := key.Parse(set.Value)
		if err != nil {
			value, _ = key.Parse(key.Default)
		}
		return value
	}
	policy := get("cleanup.policy").List
	t := Topic{
		SegmentBytes:                int32(get("segment.bytes").Int),
		SegmentMs:                   get("segment.ms").Int,
		SegmentJitterMs:             get("segment.jitter.ms").Int,
		SegmentIndexBytes:           int32(get("segment.index.bytes").Int),
		IndexIntervalBytes:          int32(get("index.interval.bytes").Int),
		FlushMessages:               get("flush.messages").Int,
		FlushMs:                     get("flush.ms").Int,
		RetentionBytes:              get("retention.bytes").Int,
		RetentionMs:                 get("retention.ms").Int,
		FileDeleteDelayMs:           get("file.delete.delay.ms").Int,
		Preallocate:                 get("preallocate").Bool,
		Delete:                      slices.Contains(policy, "delete"),
		Compact:                     slices.Contains(policy, "compact"),
		DeleteRetentionMs:           get("delete.retention.ms").Int,
		MinCompactionLagMs:          get("min.compaction.lag.ms").Int,
		MaxCompactionLagMs:          get("max.compaction.lag.ms").Int,
		MinCleanableDirtyRatio:      get("min.cleanable.dirty.ratio").Double,
		MaxMessageBytes:             int32(get("max.message.bytes").Int),
		MaxDecompressedMessageBytes: int32(get("max.decompressed.message.bytes").Int),
		CompressionType:             get("compression.type").Text,
		GzipLevel:                   int32(get("compression.gzip.level").Int),
		Lz4Level:                    int32(get("compression.lz4.level").Int),
		ZstdLevel:                   int32(get("compression.zstd.level").Int),
		LogAppendTime:               get("message.timestamp.type").Text == "LogAppendTime",
		TimestampBeforeMaxMs:        get("message.timestamp.before.max.ms").Int,
		TimestampAfterMaxMs:         get("message.timestamp.after.max.ms").Int,
		MinInsyncReplicas:           int32(get("min.insync.replicas").Int),
		UncleanLeaderElectionEnable: get("unclean.leader.election.enable").Bool,
		LeaderThrottled:             get("leader.replication.throttled.replicas").List,
		FollowerThrottled:           get("follower.replication.throttled.replicas").List,
		ProducerIDExpirationMs:      layers.brokerInt("producer.id.expiration.ms"),
	}
	if size := get("internal.segment.bytes").Int; size > 0 {
		t.SegmentBytes = int32(size)
	}
	return t
}
