package node

import (
	"slices"
	"strconv"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/config"
	cluster "github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// topicConfigs resolves what a topic's logs and producers are subject to, from
// the records of the topic down to server.properties and Kafka's defaults.
type topicConfigs struct {
	node               protocol.NodeID
	static             config.Lookup
	producerExpiration int64 // ms
}

// resolve returns the configs of a topic as img has them.
func (t topicConfigs) resolve(img *cluster.Image, topic string) replica.TopicConfig {
	layer := func(kind int8, name string) config.Lookup {
		return func(key string) (string, bool) {
			return img.Config(cluster.Resource{Type: kind, Name: name}, key)
		}
	}
	v := topicValues{layers: config.Layers{
		Topic:         layer(cluster.ResourceTopic, topic),
		Broker:        layer(cluster.ResourceBroker, strconv.Itoa(int(t.node))),
		BrokerDefault: layer(cluster.ResourceBroker, ""),
		Static:        t.static,
	}}
	codec, recompress := codecs[v.get("compression.type").Text]
	cfg := replica.TopicConfig{
		Log: storage.LogConfig{
			SegmentBytes:           int32(v.get("segment.bytes").Int),
			SegmentMs:              v.get("segment.ms").Int,
			SegmentJitterMs:        min(v.get("segment.jitter.ms").Int, v.get("segment.ms").Int),
			IndexIntervalBytes:     int32(v.get("index.interval.bytes").Int),
			SegmentIndexBytes:      int32(v.get("segment.index.bytes").Int),
			FlushMessages:          v.get("flush.messages").Int,
			RetentionMs:            -1,
			RetentionBytes:         -1,
			ProducerIDExpirationMs: t.producerExpiration,
			DeleteDelayMs:          v.get("file.delete.delay.ms").Int,
		},
		MinInSyncReplicas:    int(v.get("min.insync.replicas").Int),
		MaxMessageBytes:      int(v.get("max.message.bytes").Int),
		MaxDecompressedBytes: int(v.get("max.decompressed.message.bytes").Int),
		AppendTime:           v.get("message.timestamp.type").Text == "LogAppendTime",
		TimestampBeforeMs:    v.get("message.timestamp.before.max.ms").Int,
		TimestampAfterMs:     v.get("message.timestamp.after.max.ms").Int,
		Compacted:            slices.Contains(v.get("cleanup.policy").List, "compact"),
		Recompress:           recompress,
		Codec:                codec,
	}
	if slices.Contains(v.get("cleanup.policy").List, "delete") {
		cfg.Deletes = true
		cfg.Log.RetentionMs = v.get("retention.ms").Int
		cfg.Log.RetentionBytes = v.get("retention.bytes").Int
	}
	if level, ok := levelKeys[codec]; ok && recompress {
		cfg.Level = int(v.get(level).Int)
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

var levelKeys = map[batch.Codec]string{
	batch.CodecGzip: "compression.gzip.level",
	batch.CodecLZ4:  "compression.lz4.level",
	batch.CodecZstd: "compression.zstd.level",
}

type topicValues struct{ layers config.Layers }

// get returns the effective value of a key. What records hold was validated
// before it was written; a value that this version cannot read counts as unset.
func (v topicValues) get(name string) config.Value {
	key, ok := config.TopicKey(name)
	if !ok {
		panic("node: no topic key " + name)
	}
	if value, err := key.Parse(key.Resolve(v.layers).Value); err == nil {
		return value
	}
	value, err := key.Parse(key.Default)
	if err != nil {
		panic("node: the default of " + name + " is invalid: " + err.Error())
	}
	return value
}
