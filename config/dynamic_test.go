package config

import (
	"errors"
	"testing"

	"github.com/klamm/klamm/protocol"
)

// textOf is what a client reads of an error.
func textOf(err error) string {
	if m := protocol.MessageOf(err); m != nil {
		return *m
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Text
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// The answers of Kafka 4.4 to one key at a time, set for broker 1 or for all.
func TestValidateDynamic(t *testing.T) {
	for _, test := range []struct {
		perBroker        bool
		key, value, want string
	}{
		{true, "num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"},
		{true, "num.io.threads", "3", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.io.threads=3, value should be at least half the current value 8 for configuration Invalid dynamic configuration"},
		{true, "num.io.threads", "17", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.io.threads=17, value should not be greater than double the current value 8 for configuration Invalid dynamic configuration"},
		{true, "num.io.threads", "16", ""},
		{false, "num.io.threads", "17", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.io.threads=17, value should not be greater than double the current value 8 for configuration Invalid dynamic configuration"},
		{true, "num.network.threads", "9", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.network.threads=9, value should not be greater than double the current value 3 for configuration Invalid dynamic configuration"},
		{true, "num.replica.fetchers", "5", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.replica.fetchers=5, value should not be greater than double the current value 1 for configuration Invalid dynamic configuration"},
		{true, "background.threads", "30", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for background.threads=30, value should not be greater than double the current value 10 for configuration Invalid dynamic configuration"},
		{true, "num.recovery.threads.per.data.dir", "30", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for num.recovery.threads.per.data.dir=30, value should not be greater than double the current value 2 for configuration Invalid dynamic configuration"},
		{true, "log.cleaner.threads", "0", "/ by zero"},
		{true, "log.cleaner.threads", "30", "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be increased to more than double the current value 1 for configuration Invalid dynamic configuration"},
		{false, "listeners", "PLAINTEXT://:1", "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"},
		{false, "listener.security.protocol.map", "A:PLAINTEXT", "Cannot update these configs at default cluster level, broker id must be specified: [listener.security.protocol.map]"},
		{true, "ssl.keystore.password", "x", "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.password]"},
		{false, "ssl.keystore.password", "x", "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.password]"},
		{false, "listener.name.x.ssl.keystore.password", "x", "Cannot update these configs at default cluster level, broker id must be specified: [listener.name.x.ssl.keystore.password]"},
		{true, "sasl.jaas.config", "x", ""},
		{false, "sasl.jaas.config", "x", "Cannot update these configs at default cluster level, broker id must be specified: [sasl.jaas.config]"},
		{true, "sasl.enabled.mechanisms", "PLAIN", ""},
		{false, "sasl.enabled.mechanisms", "PLAIN", "Cannot update these configs at default cluster level, broker id must be specified: [sasl.enabled.mechanisms]"},
		{true, "principal.builder.class", "x", "Invalid value x for configuration principal.builder.class: Class x could not be found."},
		{true, "cordoned.log.dirs", "/x", "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /x"},
		{false, "cordoned.log.dirs", "/x", "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]"},
		{true, "log.retention.hours", "4", "Cannot update these configs dynamically: [log.retention.hours]"},
		{true, "log.retention.minutes", "4", "Cannot update these configs dynamically: [log.retention.minutes]"},
		{true, "log.roll.hours", "4", "Cannot update these configs dynamically: [log.roll.hours]"},
		{true, "no.such.key", "1", ""},
		{true, "leader.replication.throttled.rate", "100", ""},
		{true, "leader.replication.throttled.rate", "-1", "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0"},
		{true, "leader.replication.throttled.rate", "x", "Invalid value x for configuration leader.replication.throttled.rate: Not a number of type LONG"},
		{false, "follower.replication.throttled.rate", "100", ""},
		{true, "replica.alter.log.dirs.io.max.bytes.per.second", "1", ""},
		{true, "log.local.retention.ms", "1000", ""},
		{true, "log.local.retention.ms", "-1", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value -1 for configuration log.local.retention.ms: Value must not be -1 as log.retention.ms value is set as 604800000. for configuration Invalid dynamic configuration"},
		{true, "log.local.retention.ms", "999999999999", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value 999999999999 for configuration log.local.retention.ms: Value must not be more than log.retention.ms property value: 604800000 for configuration Invalid dynamic configuration"},
		{true, "log.local.retention.bytes", "100", ""},
		{true, "log.retention.ms", "abc", "Invalid value abc for configuration log.retention.ms: Not a number of type LONG"},
		{true, "log.retention.ms", "100", ""},
		{true, "message.max.bytes", "-1", "Invalid value -1 for configuration message.max.bytes: Value must be at least 0"},
		{true, "message.max.bytes", " 5 ", ""},
		{true, "max.connections", "-1", "Invalid value -1 for configuration max.connections: Value must be at least 0"},
		{true, "max.connections", "0", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for configuration Invalid dynamic configuration"},
		{true, "max.connections.per.ip.overrides", "a:x", "For input string: \"x\""},
		{true, "max.connections.per.ip.overrides", "a:1, b:99999999999", "For input string: \"99999999999\""},
		{false, "max.connections.per.ip.overrides", "10.9.9.9", "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 8"},
		{false, "max.connections.per.ip.overrides", "[::1]:3", "max.connections.per.ip.overrides contains invalid addresses : [::1]"},
		{true, "max.connections.per.ip.overrides", "::1:3,nohost.invalid:-1", ""},
		{true, "log.retention.ms", "0", "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{true, "log.retention.ms", "-2", ""},
		{true, "log.roll.ms", "0", "requirement failed: log.roll.ms must be greater than or equal to 1"},
		{false, "log.roll.ms", "-1", "requirement failed: log.roll.ms must be greater than or equal to 1"},
		{true, "log.roll.jitter.ms", "-1", "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"},
		{true, "log.flush.interval.ms", "-1", ""},
		{true, "group.min.session.timeout.ms", "1", "Cannot update these configs dynamically: [group.min.session.timeout.ms]"},
		{true, "listener.name.plaintext.max.connections", "0", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections 0 for configuration Invalid dynamic configuration"},
		{false, "listener.name.plaintext.max.connection.creation.rate", "0", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connection.creation.rate 0 for configuration Invalid dynamic configuration"},
		{true, "listener.name.nothere.max.connections", "0", ""},
		{true, "max.connections.per.ip", "0", "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."},
		{true, "max.connections.per.ip", "-1", "Invalid value -1 for configuration max.connections.per.ip: Value must be at least 0"},
		{true, "max.connection.creation.rate", "0", "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connection.creation.rate 0 for configuration Invalid dynamic configuration"},
		{true, "connections.max.reauth.ms", "1", "Cannot update these configs dynamically: [connections.max.reauth.ms]"},
		{true, "compression.type", "x", "Invalid value x for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{false, "min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{true, "unclean.leader.election.enable", "x", "Invalid value x for configuration unclean.leader.election.enable: Expected value to be either true or false"},
		{true, "transaction.partition.verification.enable", "false", ""},
		{true, "producer.id.expiration.ms", "0", "Invalid value 0 for configuration producer.id.expiration.ms: Value must be at least 1"},
		{true, "group.consumer.assignor.offload.enable", "false", ""},
		{true, "group.consumer.assignment.interval.ms", "100000", "group.consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms"},
		{true, "remote.fetch.max.wait.ms", "0", "Invalid value 0 for configuration remote.fetch.max.wait.ms: Value must be at least 1"},
		{true, "remote.log.manager.copier.thread.pool.size", "100", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for remote.log.manager.copier.thread.pool.size=100, value should not be greater than double the current value 10 for configuration Invalid dynamic configuration"},
		{true, "remote.log.reader.threads", "100", "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for remote.log.reader.threads=100, value should not be greater than double the current value 10 for configuration Invalid dynamic configuration"},
		{true, "remote.log.index.file.cache.total.size.bytes", "0", "Invalid value 0 for configuration remote.log.index.file.cache.total.size.bytes: Value must be at least 1"},
		{true, "config.providers", "x", ""},
		{true, "listener.name.plaintext.max.connections", "5", ""},
		{false, "listener.name.plaintext.max.connections", "5", ""},
		{true, "listener.name.plaintext.x", "5", ""},
		{true, "listener.name.plaintext.log.dirs", "5", ""},
		{true, "advertised.listeners", "x", "Cannot update these configs dynamically: [advertised.listeners]"},
		{true, "log.cleaner.io.buffer.load.factor", "x", "Invalid value x for configuration log.cleaner.io.buffer.load.factor: Not a number of type DOUBLE"},
		{true, "log.cleaner.dedupe.buffer.size", "5", "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{true, "log.cleaner.io.buffer.size", "-5", "Invalid value -5 for configuration log.cleaner.io.buffer.size: Value must be at least 0"},
	} {
		err := ValidateDynamic(map[string]string{test.key: test.value}, test.perBroker, Layers{Static: FromMap(map[string]string{"log.dirs": "/data"})})
		if got := textOf(err); got != test.want {
			t.Errorf("%s=%s: got %q, want %q", test.key, test.value, got, test.want)
		}
		if err != nil && protocol.CodeOf(err) != protocol.ErrInvalidRequest {
			t.Errorf("%s=%s: %v", test.key, test.value, protocol.CodeOf(err))
		}
	}
}

// What is checked is what would count, with what is set elsewhere.
func TestValidateDynamicTogether(t *testing.T) {
	now := Layers{Broker: FromMap(map[string]string{"num.io.threads": "20"}), Static: FromMap(map[string]string{"num.io.threads": "4", "log.dir": "/a, /b"})}
	if err := ValidateDynamic(map[string]string{"num.io.threads": "1000"}, false, now); err != nil {
		t.Errorf("the broker's own value stays the stronger one: %v", err)
	}
	err := ValidateDynamic(map[string]string{"node.id": "4", "log.dirs": "a", "broker.id": "3"}, true, now)
	if got, want := textOf(err), "Cannot update these configs dynamically: [broker.id, log.dirs, node.id]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := ValidateDynamic(map[string]string{"cordoned.log.dirs": "/b", "num.io.threads": "10"}, true, now); err != nil {
		t.Error(err)
	}
	if err := ValidateDynamic(nil, true, now); textOf(err) == "" {
		t.Error("4 threads for 20 are too few at once")
	}
}

func TestDynamicModes(t *testing.T) {
	if len(clusterWideKeys) != 73 || len(perBrokerKeys) != 37 {
		t.Errorf("%d keys for all brokers, %d for one; Kafka 4.4 has 73 and 37", len(clusterWideKeys), len(perBrokerKeys))
	}
	for _, set := range []map[string]bool{clusterWideKeys, perBrokerKeys, listenerOnlyKeys, listenerClusterKeys} {
		for name := range set {
			if _, ok := DynamicKey(name); !ok || DynamicMode(name) == ReadOnly {
				t.Errorf("%s is no key that can be set", name)
			}
		}
	}
	if key, ok := DynamicKey("listener.name.sasl.scram-sha-256.sasl.jaas.config"); !ok || key.Name != "sasl.jaas.config" {
		t.Errorf("a mechanism's key is %+v", key)
	}
}

// The answers of Kafka 4.4 to one group key at a time.
func TestValidateGroup(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"consumer.session.timeout.ms", "-5", "Invalid value -5 for configuration consumer.session.timeout.ms: Value must be at least 1"},
		{"consumer.session.timeout.ms", "1", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.session.timeout.ms", "2000000000", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.heartbeat.interval.ms", "-5", "Invalid value -5 for configuration consumer.heartbeat.interval.ms: Value must be at least 1"},
		{"consumer.heartbeat.interval.ms", "1", "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"consumer.heartbeat.interval.ms", "2000000000", "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"consumer.assignment.interval.ms", "-5", "Invalid value -5 for configuration consumer.assignment.interval.ms: Value must be at least 0"},
		{"consumer.assignment.interval.ms", "1", ""},
		{"consumer.assignment.interval.ms", "2000000000", "consumer.assignment.interval.ms must be in the range 0 to 15000 inclusive."},
		{"share.session.timeout.ms", "-5", "Invalid value -5 for configuration share.session.timeout.ms: Value must be at least 1"},
		{"share.session.timeout.ms", "1", "share.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"share.session.timeout.ms", "2000000000", "share.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"share.heartbeat.interval.ms", "-5", "Invalid value -5 for configuration share.heartbeat.interval.ms: Value must be at least 1"},
		{"share.heartbeat.interval.ms", "1", "share.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"share.heartbeat.interval.ms", "2000000000", "share.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"share.assignment.interval.ms", "-5", "Invalid value -5 for configuration share.assignment.interval.ms: Value must be at least 0"},
		{"share.assignment.interval.ms", "1", ""},
		{"share.assignment.interval.ms", "2000000000", "share.assignment.interval.ms must be in the range 0 to 15000 inclusive."},
		{"share.record.lock.duration.ms", "-5", "Invalid value -5 for configuration share.record.lock.duration.ms: Value must be at least 1000"},
		{"share.record.lock.duration.ms", "1", "Invalid value 1 for configuration share.record.lock.duration.ms: Value must be at least 1000"},
		{"share.record.lock.duration.ms", "2000000000", "share.record.lock.duration.ms must be in the range 15000 to 60000 inclusive."},
		{"share.delivery.count.limit", "-5", "Invalid value -5 for configuration share.delivery.count.limit: Value must be at least 2"},
		{"share.delivery.count.limit", "1", "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2"},
		{"share.delivery.count.limit", "2000000000", "share.delivery.count.limit must be in the range 2 to 10 inclusive."},
		{"share.partition.max.record.locks", "-5", "Invalid value -5 for configuration share.partition.max.record.locks: Value must be at least 100"},
		{"share.partition.max.record.locks", "1", "Invalid value 1 for configuration share.partition.max.record.locks: Value must be at least 100"},
		{"share.partition.max.record.locks", "2000000000", "share.partition.max.record.locks must be in the range 100 to 4000 inclusive."},
		{"streams.session.timeout.ms", "-5", "Invalid value -5 for configuration streams.session.timeout.ms: Value must be at least 1"},
		{"streams.session.timeout.ms", "1", "streams.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"streams.session.timeout.ms", "2000000000", "streams.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"streams.heartbeat.interval.ms", "-5", "Invalid value -5 for configuration streams.heartbeat.interval.ms: Value must be at least 1"},
		{"streams.heartbeat.interval.ms", "1", "streams.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"streams.heartbeat.interval.ms", "2000000000", "streams.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"streams.assignment.interval.ms", "-5", "Invalid value -5 for configuration streams.assignment.interval.ms: Value must be at least 0"},
		{"streams.assignment.interval.ms", "1", ""},
		{"streams.assignment.interval.ms", "2000000000", "streams.assignment.interval.ms must be in the range 0 to 15000 inclusive."},
		{"streams.initial.rebalance.delay.ms", "-5", "Invalid value -5 for configuration streams.initial.rebalance.delay.ms: Value must be at least 0"},
		{"streams.initial.rebalance.delay.ms", "1", ""},
		{"streams.initial.rebalance.delay.ms", "2000000000", ""},
		{"streams.num.standby.replicas", "-5", "Invalid value -5 for configuration streams.num.standby.replicas: Value must be at least 0"},
		{"streams.num.standby.replicas", "1", ""},
		{"streams.num.standby.replicas", "2000000000", "streams.num.standby.replicas must be less than or equal to 2"},
		{"streams.task.offset.interval.ms", "-5", "Invalid value -5 for configuration streams.task.offset.interval.ms: Value must be at least 1"},
		{"streams.task.offset.interval.ms", "1", "streams.task.offset.interval.ms must be greater than or equal to 15000"},
		{"streams.task.offset.interval.ms", "2000000000", ""},
		{"streams.num.warmup.replicas", "-5", "Invalid value -5 for configuration streams.num.warmup.replicas: Value must be at least 0"},
		{"streams.num.warmup.replicas", "1", ""},
		{"streams.num.warmup.replicas", "2000000000", "streams.num.warmup.replicas must be less than or equal to 20"},
		{"streams.acceptable.recovery.lag", "-5", "Invalid value -5 for configuration streams.acceptable.recovery.lag: Value must be at least 0"},
		{"streams.acceptable.recovery.lag", "1", ""},
		{"streams.acceptable.recovery.lag", "2000000000", ""},
		{"share.isolation.level", "x", "Invalid value x for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"},
		{"share.isolation.level", "READ_COMMITTED", "Invalid value READ_COMMITTED for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"},
		{"share.renew.acknowledge.enable", "x", "Invalid value x for configuration share.renew.acknowledge.enable: Expected value to be either true or false"},
		{"streams.assignor.name", "x", "streams.assignor.name 'x' is not a registered task assignor. Registered assignors are: [sticky]."},
		{"streams.assignor.name", "", "streams.assignor.name '' is not a registered task assignor. Registered assignors are: [sticky]."},
		{"streams.rack.aware.assignment.tags", "a,b", ""},
		{"streams.rack.aware.assignment.tags", "a,,b", "Configuration 'streams.rack.aware.assignment.tags' values must not be empty."},
		{"streams.rack.aware.assignment.tags", "a,a", "streams.rack.aware.assignment.tags must not contain duplicate tag keys."},
		{"errors.deadletterqueue.topic.name", "a b", ""},
		{"errors.deadletterqueue.topic.name", "x", ""},
		{"errors.deadletterqueue.topic.name", "dlq.x", ""},
		{"errors.deadletterqueue.topic.name", "__x", "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"},
		{"errors.deadletterqueue.copy.record.enable", "1", "Invalid value 1 for configuration errors.deadletterqueue.copy.record.enable: Expected value to be either true or false"},
		{"consumer.assignor.offload.enable", "false", ""},
		{"share.auto.offset.reset", "earliest", ""},
		{"share.auto.offset.reset", "by_duration:PT1H", ""},
		{"share.auto.offset.reset", "by_duration:-PT1H", "Invalid value by_duration:-PT1H for configuration share.auto.offset.reset: Invalid value `by_duration:-PT1H` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."},
		{"share.auto.offset.reset", "by_duration:x", "Invalid value by_duration:x for configuration share.auto.offset.reset: Invalid value `by_duration:x` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."},
		{"share.auto.offset.reset", "EARLIEST", "Invalid value EARLIEST for configuration share.auto.offset.reset: Invalid value `EARLIEST` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."},
		{"no.such.key", "1", "Unknown group config name: no.such.key"},
	} {
		if got := textOf(ValidateGroup(map[string]string{test.key: test.value}, Layers{})); got != test.want {
			t.Errorf("%s=%s: got %q, want %q", test.key, test.value, got, test.want)
		}
	}
	wide := Layers{Static: FromMap(map[string]string{"group.share.min.session.timeout.ms": "1"})}
	err := ValidateGroup(map[string]string{"share.session.timeout.ms": "5000"}, wide)
	if got, want := textOf(err), "share.session.timeout.ms must be greater than share.heartbeat.interval.ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(GroupKeys()) != 21 || len(groupKeys) != 27 {
		t.Errorf("%d listed of %d group keys, Kafka has 21 of 27", len(GroupKeys()), len(groupKeys))
	}
}

// The answers of Kafka 4.4 to one key of a subscription at a time.
func TestValidateClientMetrics(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"match", "client_id=", "Illegal client matching pattern: client_id="},
		{"match", "nonsense=a", "Illegal client matching pattern: nonsense=a"},
		{"match", "client_id=a=b", "Illegal client matching pattern: client_id=a=b"},
		{"match", " client_id = a , client_software_name=b", ""},
		{"match", "", ""},
		{"metrics", "", ""},
		{"metrics", "*", ""},
		{"interval.ms", "x", "Invalid value x for configuration interval.ms: Not a number of type INT"},
		{"interval.ms", "3600001", "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{"match", "client_id=a,,", "Configuration 'match' values must not be empty."},
		{"metrics", "a,,b", "Configuration 'metrics' values must not be empty."},
		{"match", "client_id=a(", "Illegal client matching pattern: client_id=a("},
		{"no.such.key", "1", "Unknown client metrics configuration: no.such.key"},
	} {
		if got := textOf(ValidateClientMetrics(map[string]string{test.key: test.value})); got != test.want {
			t.Errorf("%s=%s: got %q, want %q", test.key, test.value, got, test.want)
		}
	}
}
