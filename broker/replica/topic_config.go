package replica

import (
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/quota"
	"github.com/klamm/klamm/storage"
)

// TopicConfig is what a topic's configuration says about its partitions. The
// values are those in force, with broker and static defaults resolved. Partitions
// of a topic share one; it is never modified.
type TopicConfig struct {
	// Log is what the log itself needs: segments, indexes, flushing. Its jitter is
	// the largest; each log draws its own.
	Log storage.LogConfig
	// MinInSyncReplicas is how many in-sync replicas acks=all asks for
	// (min.insync.replicas). More than there are replicas counts as all.
	MinInSyncReplicas int
	// MaxMessageBytes bounds a batch as it is sent (max.message.bytes).
	MaxMessageBytes int
	// MaxDecompressedBytes bounds what a batch unpacks to
	// (max.decompressed.message.bytes).
	MaxDecompressedBytes int
	// AppendTime has the leader's clock in place of the producer's
	// (message.timestamp.type=LogAppendTime).
	AppendTime bool
	// TimestampBeforeMs and TimestampAfterMs are how far a producer's timestamp may
	// lie from now (message.timestamp.before.max.ms, message.timestamp.after.max.ms).
	// The default of the first is the largest int64, too long for a time.Duration.
	TimestampBeforeMs, TimestampAfterMs int64
	// Compacted topics want a key in every record (cleanup.policy).
	Compacted bool
	// Deletes: old records may go, and clients may ask for it (cleanup.policy).
	Deletes bool
	// Recompress rewrites batches of another codec to Codec, at Level where the
	// codec has levels (compression.type). False keeps the producer's.
	Recompress bool
	Codec      batch.Codec
	Level      int
	// LeaderThrottled and FollowerThrottled are the partitions that replication
	// throttles hold on this broker (leader.replication.throttled.replicas and the
	// follower's).
	LeaderThrottled, FollowerThrottled quota.Replicas
}

// FetchNeedsZstd tells whether the topic's records may only go to clients that
// know zstd (KIP-110). A single batch that a producer compressed so is served to
// all, as Kafka does.
func (c *TopicConfig) FetchNeedsZstd() bool { return c.Recompress && c.Codec == batch.CodecZstd }
