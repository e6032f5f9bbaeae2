package config

import (
	"errors"
	"testing"

	"github.com/klamm/klamm/protocol"
)

// The texts are those of Kafka 4.4.0, asked with the same values.
func TestValidateTopic(t *testing.T) {
	const throttled = "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
	tests := []struct{ key, value, want string }{
		{"cleanup.policy", "", ""},
		{"cleanup.policy", " ", ""},
		{"cleanup.policy", "compact , delete", ""},
		{"cleanup.policy", "compact,compact", ""},
		{"cleanup.policy", "x", "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "COMPACT", "Invalid value COMPACT for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty."},
		{"compression.type", " gzip ", ""},
		{"compression.type", "foo", "Invalid value foo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level", "-1", ""},
		{"compression.gzip.level", "10", "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.zstd.level", "-131073", "Invalid value -131073 for configuration compression.zstd.level: Value must be at least -131072"},
		{"preallocate", " TRUE ", ""},
		{"preallocate", "yes_this", "Invalid value yes_this for configuration preallocate: Expected value to be either true or false"},
		{"retention.ms", " 1000 ", ""},
		{"retention.ms", "+5", ""},
		{"retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "0x10", "Invalid value 0x10 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "9223372036854775808", "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.bytes", "-9", ""},
		{"segment.bytes", "13", "Invalid value 13 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"internal.segment.bytes", "5", ""},
		{"min.cleanable.dirty.ratio", "1e-2", ""},
		{"min.cleanable.dirty.ratio", "0.5f", ""},
		{"min.cleanable.dirty.ratio", "0x1p-1", ""},
		{"min.cleanable.dirty.ratio", "NaN", ""},
		{"min.cleanable.dirty.ratio", "nan", "Invalid value nan for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"min.cleanable.dirty.ratio", "1.1", "Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "2", "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "-0.1", "Invalid value -0.1 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "Infinity", "Invalid value Infinity for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{"max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"},
		{"max.decompressed.message.bytes", "2147483647", "Invalid value 2147483647 for configuration max.decompressed.message.bytes: Value must be no more than 2147483639"},
		{"message.timestamp.type", "createtime", "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"leader.replication.throttled.replicas", "*", ""},
		{"leader.replication.throttled.replicas", "1:2,3:4", ""},
		{"leader.replication.throttled.replicas", "1:2,", ""},
		{"leader.replication.throttled.replicas", "x:y", "Invalid value [x:y] for configuration leader.replication.throttled.replicas: " + throttled},
		{"leader.replication.throttled.replicas", "*,*", "Invalid value [*, *] for configuration leader.replication.throttled.replicas: " + throttled},
		{"remote.copy.lag.ms", "-2", "Invalid value -2 for configuration remote.copy.lag.ms: Value must be at least -1"},
		{"remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{"unknown.key", "1", "Unknown topic config name: unknown.key"},
		{"", "1", "Unknown topic config name: "},
		{"message.format.version", "3.0", "Unknown topic config name: message.format.version"},
	}
	for _, test := range tests {
		err := ValidateTopic(map[string]string{test.key: test.value}, Layers{})
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s=%q: %v", test.key, test.value, err)
		case test.want != "" && (err == nil || err.Error() != test.want):
			t.Errorf("%s=%q:\n got %v\nwant %s", test.key, test.value, err, test.want)
		case test.want != "" && !errors.Is(err, protocol.ErrInvalidConfig):
			t.Errorf("%s=%q: %v is not INVALID_CONFIG", test.key, test.value, err)
		}
	}
}

func TestValidateTopicTogether(t *testing.T) {
	err := ValidateTopic(map[string]string{"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "6"}, Layers{})
	if want := "conflict topic config setting min.compaction.lag.ms (6) > max.compaction.lag.ms (5)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// Half of the conflict may come from the broker.
	err = ValidateTopic(map[string]string{"max.compaction.lag.ms": "5"}, Layers{Static: FromMap(map[string]string{"log.cleaner.min.compaction.lag.ms": "7"})})
	if want := "conflict topic config setting min.compaction.lag.ms (7) > max.compaction.lag.ms (5)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// Of several wrong values, the first in Kafka's order.
	err = ValidateTopic(map[string]string{"segment.bytes": "1", "cleanup.policy": "x", "retention.ms": "abc"}, Layers{})
	if want := "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got, want := NullTopicConfigs("retention.ms").Error(), "Null value not supported for topic configs: retention.ms"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every key's default passes its own check, and a topic key's default is that
// of its first synonym with a default, in the topic key's unit.
func TestDefaults(t *testing.T) {
	for _, keys := range [][]Key{topicKeys, brokerKeys} {
		for i := range keys {
			key := &keys[i]
			if key.Null || key.Required {
				continue
			}
			if _, err := key.Parse(key.Default); err != nil {
				t.Errorf("default of %s: %v", key.Name, err)
			}
			if got := key.Normalize(key.Default); got != key.Default {
				t.Errorf("default of %s is written %q, normalized %q", key.Name, key.Default, got)
			}
		}
	}
	for i := range topicKeys {
		key := &topicKeys[i]
		for _, synonym := range key.Synonyms {
			if _, ok := BrokerKey(synonym.Name); !ok {
				t.Errorf("%s: no broker key %s", key.Name, synonym.Name)
			}
			if value, ok := brokerDefault(synonym.Name); ok {
				if got := synonym.convert(value); got != key.Default {
					t.Errorf("%s: default %s, of its synonym %s: %s", key.Name, key.Default, synonym.Name, got)
				}
				break
			}
		}
	}
	if len(TopicKeys()) != 37 || len(topicKeys) != 38 || len(brokerKeys) != 379 {
		t.Errorf("%d listed of %d topic keys, %d broker keys", len(TopicKeys()), len(topicKeys), len(brokerKeys))
	}
}

func TestLayers(t *testing.T) {
	layers := Layers{
		Topic:         FromMap(map[string]string{"cleanup.policy": "compact , delete"}),
		Broker:        FromMap(map[string]string{"log.segment.bytes": "2000000"}),
		BrokerDefault: FromMap(map[string]string{"min.insync.replicas": "2", "log.segment.bytes": "3000000"}),
		Static:        FromMap(map[string]string{"log.retention.hours": "2", "log.roll.ms": "5", "log.roll.hours": "1"}),
	}
	tests := []struct {
		key    string
		value  string // of Resolve
		source Source
		shown  string // of Describe
		listed Source
		places []Setting
	}{
		{"cleanup.policy", "compact , delete", FromTopic, "compact,delete", FromTopic, []Setting{
			{Name: "cleanup.policy", Value: "compact , delete", Source: FromTopic},
			{Name: "log.cleanup.policy", Value: "delete", Source: FromDefault},
		}},
		{"segment.bytes", "2000000", FromBroker, "2000000", FromBroker, []Setting{
			{Name: "log.segment.bytes", Value: "2000000", Source: FromBroker},
			{Name: "log.segment.bytes", Value: "3000000", Source: FromBrokerDefault},
			{Name: "log.segment.bytes", Value: "1073741824", Source: FromDefault},
		}},
		{"min.insync.replicas", "2", FromBrokerDefault, "2", FromBrokerDefault, []Setting{
			{Name: "min.insync.replicas", Value: "2", Source: FromBrokerDefault},
			{Name: "min.insync.replicas", Value: "1", Source: FromDefault},
		}},
		{"retention.ms", "7200000", FromFile, "7200000", FromDefault, nil},
		{"segment.ms", "5", FromFile, "5", FromFile, []Setting{
			{Name: "log.roll.ms", Value: "5", Source: FromFile},
			{Name: "log.roll.hours", Value: "1", Source: FromFile},
			{Name: "log.roll.hours", Value: "168", Source: FromDefault},
		}},
		{"flush.ms", "9223372036854775807", FromDefault, "9223372036854775807", FromDefault, nil},
		{"remote.storage.enable", "false", FromDefault, "false", FromDefault, nil},
	}
	for _, test := range tests {
		key, ok := TopicKey(test.key)
		if !ok {
			t.Fatalf("no key %s", test.key)
		}
		if got := key.Resolve(layers); got.Value != test.value || got.Source != test.source {
			t.Errorf("%s resolves to %+v", test.key, got)
		}
		shown, places := key.Describe(layers)
		if shown.Name != test.key || shown.Value != test.shown || shown.Source != test.listed {
			t.Errorf("%s is described as %+v", test.key, shown)
		}
		if len(places) != len(test.places) {
			t.Errorf("%s: places %+v", test.key, places)
			continue
		}
		for i := range places {
			if places[i] != test.places[i] {
				t.Errorf("%s: place %d is %+v, want %+v", test.key, i, places[i], test.places[i])
			}
		}
	}
}

func TestFormatDouble(t *testing.T) {
	for value, want := range map[float64]string{0: "0.0", 0.5: "0.5", 1: "1.0", -2: "-2.0", 0.001: "0.001", 0.0001: "1.0E-4", 1e7: "1.0E7", 9999999: "9999999.0", 1.5e10: "1.5E10"} {
		if got := formatDouble(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}
