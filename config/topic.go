package config

import (
	"slices"
	"strings"
)

const (
	minuteMs = 60_000
	hourMs   = 60 * minuteMs
)

// topicKeys are all topic keys of Kafka 4.4. The order is that in which Kafka
// checks them: of several wrong values the first one here is reported.
var topicKeys = []Key{
	{
		Name: "segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(1 << 20), Synonyms: same("log.segment.bytes"),
		Doc: "Size in bytes at which a segment file is closed and the next one begun. Retention and cleaning work on whole closed segments: larger segments mean fewer files and coarser retention.",
	},
	{
		Name: "segment.ms", Type: Long, Default: "604800000", Valid: atLeast(1), Synonyms: []Synonym{{Name: "log.roll.ms"}, {Name: "log.roll.hours", Factor: hourMs}},
		Doc: "Age in milliseconds at which a segment is closed although it is not full, so that retention and cleaning reach records of a quiet topic.",
	},
	{
		Name: "segment.jitter.ms", Type: Long, Default: "0", Valid: atLeast(0), Synonyms: []Synonym{{Name: "log.roll.jitter.ms"}, {Name: "log.roll.jitter.hours", Factor: hourMs}},
		Doc: "Largest random amount taken from segment.ms, so that the segments of many partitions are not closed all at once.",
	},
	{
		Name: "segment.index.bytes", Type: Int, Default: "10485760", Valid: atLeast(4), Synonyms: same("log.index.size.max.bytes"),
		Doc: "Largest size of the index that maps offsets to positions. The file is preallocated to it and cut when the segment is closed.",
	},
	{
		Name: "flush.messages", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Synonyms: same("log.flush.interval.messages"),
		Doc: "Number of records after which the log is synced to disk. With 1, an acknowledged record is on the disk; by default the operating system decides, and replication guards against its loss.",
	},
	{
		Name: "flush.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(0), Synonyms: same("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
		Doc: "Longest time in milliseconds that an appended record stays unsynced.",
	},
	{
		Name: "retention.bytes", Type: Long, Default: "-1", Synonyms: same("log.retention.bytes"),
		Doc: "Size of a partition above which its oldest segments are deleted when cleanup.policy says delete. -1: no limit by size. It counts per partition, not per topic.",
	},
	{
		Name: "retention.ms", Type: Long, Default: "604800000", Valid: atLeast(-1), Synonyms: []Synonym{
			{Name: "log.retention.ms", Unlimited: true},
			{Name: "log.retention.minutes", Factor: minuteMs, Unlimited: true},
			{Name: "log.retention.hours", Factor: hourMs, Unlimited: true},
		},
		Doc: "Age in milliseconds beyond which segments are deleted when cleanup.policy says delete. -1: no limit by time.",
	},
	{
		Name: "max.message.bytes", Type: Int, Default: "1048588", Valid: atLeast(0), Synonyms: same("message.max.bytes"),
		Doc: "Largest record batch that is accepted, in bytes as it is sent (after compression).",
	},
	{
		Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639", Valid: between{1, 2147483639}, Synonyms: same("max.decompressed.message.bytes"),
		Doc: "Largest size in bytes that the records of a compressed batch may have once they are decompressed.",
	},
	{
		Name: "index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0), Synonyms: same("log.index.interval.bytes"),
		Doc: "Bytes of records between two entries of the offset index. A smaller value finds an offset with less reading and makes a larger index.",
	},
	{
		Name: "delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0), Synonyms: same("log.cleaner.delete.retention.ms"), NoEffect: true,
		Doc: "Time in milliseconds for which a tombstone survives cleaning, so that a reader that began at offset 0 still sees it if it is through by then.",
	},
	{
		Name: "min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0), Synonyms: same("log.cleaner.min.compaction.lag.ms"), NoEffect: true,
		Doc: "Time in milliseconds for which a record is safe from compaction.",
	},
	{
		Name: "max.compaction.lag.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(1), Synonyms: same("log.cleaner.max.compaction.lag.ms"), NoEffect: true,
		Doc: "Longest time in milliseconds after which a record is eligible for compaction, however little there is to gain.",
	},
	{
		Name: "file.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0), Synonyms: same("log.segment.delete.delay.ms"),
		Doc: "Time in milliseconds between the renaming of a deleted file and its removal from the file system.",
	},
	{
		Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Valid: fraction{0, 1}, Synonyms: same("log.cleaner.min.cleanable.ratio"), NoEffect: true,
		Doc: "Share of a log that must be uncleaned before the cleaner works on it. A higher ratio means fewer passes and more space in use.",
	},
	{
		Name: "cleanup.policy", Type: List, Default: "delete", Valid: listOf{words: []string{"compact", "delete"}, orEmpty: true}, Synonyms: same("log.cleanup.policy"),
		Doc: "What happens to old segments: delete removes them by age or size, compact keeps the last record of each key. Both may be given; an empty list keeps everything.",
	},
	{
		Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Synonyms: same("unclean.leader.election.enable"),
		Doc: "Whether a replica outside of the in-sync set may become leader when nobody else is left. It makes the partition available at the price of lost records.",
	},
	{
		Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1), Synonyms: same("min.insync.replicas"),
		Doc: "Number of in-sync replicas below which a write with acks=all is refused.",
	},
	{
		Name: "compression.type", Type: String, Default: "producer", Valid: oneOf{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Synonyms: same("compression.type"),
		Doc: "Codec in which the records of this topic are stored. producer keeps what the producer chose.",
	},
	{
		Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: betweenOr{1, 9, -1}, Synonyms: same("compression.gzip.level"),
		Doc: "Compression level where compression.type is gzip. -1 is the library's default.",
	},
	{
		Name: "compression.lz4.level", Type: Int, Default: "9", Valid: between{1, 17}, Synonyms: same("compression.lz4.level"),
		Doc: "Compression level where compression.type is lz4.",
	},
	{
		Name: "compression.zstd.level", Type: Int, Default: "3", Valid: between{-131072, 22}, Synonyms: same("compression.zstd.level"),
		Doc: "Compression level where compression.type is zstd.",
	},
	{
		Name: "preallocate", Type: Boolean, Default: "false", Synonyms: same("log.preallocate"), NoEffect: true,
		Doc: "Whether a new segment file is given its full size at once.",
	},
	{
		Name: "message.timestamp.type", Type: String, Default: "CreateTime", Valid: oneOf{"CreateTime", "LogAppendTime"}, Synonyms: same("log.message.timestamp.type"),
		Doc: "Whether a record carries the time that its producer gave it or the time at which it was appended.",
	},
	{
		Name: "message.timestamp.before.max.ms", Type: Long, Default: "9223372036854775807", Valid: atLeast(0), Synonyms: same("log.message.timestamp.before.max.ms"),
		Doc: "How far in milliseconds a record's timestamp may lie in the past. Not checked with LogAppendTime.",
	},
	{
		Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0), Synonyms: same("log.message.timestamp.after.max.ms"),
		Doc: "How far in milliseconds a record's timestamp may lie in the future. Not checked with LogAppendTime.",
	},
	{
		Name: "leader.replication.throttled.replicas", Type: List, Valid: throttledReplicas{},
		Doc: "Replicas whose replication is throttled on the leader's side, as PARTITION:BROKER,...; * means all of the topic.",
	},
	{
		Name: "follower.replication.throttled.replicas", Type: List, Valid: throttledReplicas{},
		Doc: "Replicas whose replication is throttled on the follower's side, as PARTITION:BROKER,...; * means all of the topic.",
	},
	{
		Name: "remote.storage.enable", Type: Boolean, Default: "false", NoEffect: true,
		Doc: "Whether closed segments are copied to a remote tier.",
	},
	{
		Name: "local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2), Synonyms: same("log.local.retention.ms"), NoEffect: true,
		Doc: "Age in milliseconds beyond which segments that are in the remote tier are deleted locally. -2: as retention.ms.",
	},
	{
		Name: "local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2), Synonyms: same("log.local.retention.bytes"), NoEffect: true,
		Doc: "Size above which segments that are in the remote tier are deleted locally. -2: as retention.bytes.",
	},
	{
		Name: "remote.log.copy.disable", Type: Boolean, Default: "false", NoEffect: true,
		Doc: "Whether copying to the remote tier is stopped while what is there can still be read.",
	},
	{
		Name: "remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1), Synonyms: same("log.remote.copy.lag.ms"), NoEffect: true,
		Doc: "Age in milliseconds that a closed segment reaches before it is copied to the remote tier. 0: at once.",
	},
	{
		Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Synonyms: same("log.remote.copy.lag.bytes"), NoEffect: true,
		Doc: "Bytes of newer segments that must exist before a closed segment is copied to the remote tier.",
	},
	{
		Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", NoEffect: true,
		Doc: "Whether the remote tier's data is deleted when remote.storage.enable is switched off.",
	},
	{
		Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false", NoEffect: true,
		Doc: "Whether share groups may write records that could not be processed to this topic.",
	},
	{
		Name: "internal.segment.bytes", Type: Int, Null: true, Internal: true,
		Doc: "segment.bytes without its lower limit, for tests.",
	},
}

func same(names ...string) []Synonym {
	s := make([]Synonym, len(names))
	for i, name := range names {
		s[i] = Synonym{Name: name}
	}
	return s
}

var topicIndex = func() map[string]*Key {
	index := make(map[string]*Key, len(topicKeys))
	for i := range topicKeys {
		index[topicKeys[i].Name] = &topicKeys[i]
	}
	return index
}()

var topicListed = func() []*Key {
	var listed []*Key
	for i := range topicKeys {
		if !topicKeys[i].Internal {
			listed = append(listed, &topicKeys[i])
		}
	}
	slices.SortFunc(listed, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return listed
}()

// TopicKeys are the keys that an answer lists, sorted by name. The slice is
// shared: nobody changes it.
func TopicKeys() []*Key { return topicListed }

// TopicKey finds a topic key by its name, internal ones too.
func TopicKey(name string) (*Key, bool) {
	key, ok := topicIndex[name]
	return key, ok
}

// ValidateTopic checks the configs that a topic has, or would have, together
// with the values that it inherits from the broker. Its errors carry Kafka's
// text and unwrap to INVALID_CONFIG. A null value is not for it: see
// NullTopicConfigs.
func ValidateTopic(overrides map[string]string, layers Layers) error {
	for _, name := range sortedNames(overrides) {
		if _, ok := topicIndex[name]; !ok {
			return errorf("Unknown topic config name: %s", name)
		}
	}
	layers.Topic = func(name string) (string, bool) {
		value, ok := overrides[name]
		return value, ok
	}
	var minLag, maxLag int64
	var remote bool
	for i := range topicKeys {
		key := &topicKeys[i]
		set := key.Resolve(layers)
		if set.Null {
			continue
		}
		value, err := key.Parse(set.Value)
		if err != nil {
			return err
		}
		switch key.Name {
		case "min.compaction.lag.ms":
			minLag = value.Int
		case "max.compaction.lag.ms":
			maxLag = value.Int
		case "remote.storage.enable":
			remote = value.Bool
		}
	}
	if minLag > maxLag {
		return errorf("conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", minLag, maxLag)
	}
	if remote {
		return errorf("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return nil
}

// NullTopicConfigs is the error for topic keys that were given no value.
func NullTopicConfigs(names ...string) error {
	return errorf("Null value not supported for topic configs: %s", strings.Join(names, ","))
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
