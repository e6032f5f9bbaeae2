package node

import (
	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/config"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/quota"
	"github.com/klamm/klamm/storage"
)

// topic returns what a topic's logs and producers are subject to, from the
// records of the topic down to server.properties and Kafka's defaults.
func (c configs) topic(img *cluster.Image, topic string) replica.TopicConfig {
	layers := img.Layers(c.node, c.static)
	layers.Topic = img.ConfigsOf(cluster.Resource{Type: cluster.ResourceTopic, Name: topic})
	v := config.ResolveTopic(layers)
	codec, recompress := codecs[v.CompressionType]
	cfg := replica.TopicConfig{
		Log: storage.LogConfig{
			SegmentBytes:           v.SegmentBytes,
			SegmentMs:              v.SegmentMs,
			SegmentJitterMs:        min(v.SegmentJitterMs, v.SegmentMs),
			IndexIntervalBytes:     v.IndexIntervalBytes,
			SegmentIndexBytes:      v.SegmentIndexBytes,
			FlushMessages:          v.FlushMessages,
			FlushMs:                v.FlushMs,
			RetentionMs:            -1,
			RetentionBytes:         -1,
			ProducerIDExpirationMs: v.ProducerIDExpirationMs,
			DeleteDelayMs:          v.FileDeleteDelayMs,
		},
		MinInSyncReplicas:    int(v.MinInsyncReplicas),
		MaxMessageBytes:      int(v.MaxMessageBytes),
		MaxDecompressedBytes: int(v.MaxDecompressedMessageBytes),
		AppendTime:           v.LogAppendTime,
		TimestampBeforeMs:    v.TimestampBeforeMaxMs,
		TimestampAfterMs:     v.TimestampAfterMaxMs,
		Compacted:            v.Compact,
		Deletes:              v.Delete,
		Recompress:           recompress,
		Codec:                codec,
		LeaderThrottled:      quota.ReplicasOf(v.LeaderThrottled, c.node),
		FollowerThrottled:    quota.ReplicasOf(v.FollowerThrottled, c.node),
	}
	if v.Delete {
		cfg.Log.RetentionMs, cfg.Log.RetentionBytes = v.RetentionMs, v.RetentionBytes
	}
	switch codec {
	case batch.CodecGzip:
		cfg.Level = int(v.GzipLevel)
	case batch.CodecLZ4:
		cfg.Level = int(v.Lz4Level)
	case batch.CodecZstd:
		cfg.Level = int(v.ZstdLevel)
	}
	return cfg
}

// codecs are the values of compression.type that ask for a codec; "producer"
// leaves batches as they come.
var codecs = map[string]batch.Codec{
	"uncompressed": batch.CodecNone,
	"gzip":         batch.CodecGzip,
	"snappy":       batch.CodecSnappy,
	"lz4":          batch.CodecLZ4,
	"zstd":         batch.CodecZstd,
}
