package config

import (
	"slices"
	"strings"

	"github.com/klamm/klamm/protocol"
)

// Mode says whether a broker key can be set at run time, and for whom.
type Mode int8

// The modes of Kafka's dynamic broker configs.
const (
	ReadOnly    Mode = iota // only in the file
	ClusterWide             // for all brokers at once, or for one
	PerBroker               // for one broker
)

// clusterWideKeys can be set for all brokers. The last three exist at run time
// only.
var clusterWideKeys = words(`background.threads compression.gzip.level compression.lz4.level compression.type
compression.zstd.level config.providers errors.deadletterqueue.auto.create.topics.enable
errors.deadletterqueue.topic.name.prefix follower.fetch.last.tiered.offset.enable
group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable
group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms group.share.assignor.offload.enable
group.streams.assignment.interval.ms group.streams.assignor.offload.enable log.cleaner.backoff.ms
log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms log.message.timestamp.type log.preallocate log.remote.copy.lag.bytes
log.remote.copy.lag.ms log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes
log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
max.connections.per.ip.overrides max.decompressed.message.bytes message.max.bytes metric.reporters
min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
producer.id.expiration.ms remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
remote.log.reader.threads share.coordinator.cached.buffer.max.bytes transaction.partition.verification.enable
unclean.leader.election.enable leader.replication.throttled.rate follower.replication.throttled.rate
replica.alter.log.dirs.io.max.bytes.per.second`)

// perBrokerKeys speak of a broker's own listeners and directories.
var perBrokerKeys = words(`cordoned.log.dirs listener.security.protocol.map listeners principal.builder.class
sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type`)

// listenerOnlyKeys are accepted with a listener's prefix and never without.
var listenerOnlyKeys = words(`ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type`)

// listenerClusterKeys may be set for a listener of all brokers.
var listenerClusterKeys = words("max.connections max.connection.creation.rate num.network.threads")

// throttleKeys have no static form and so no row in the table of broker keys.
var throttleKeys = []Key{
	{Name: followerRateKey, Type: Long, Default: "9223372036854775807", Valid: atLeast(0)},
	{Name: leaderRateKey, Type: Long, Default: "9223372036854775807", Valid: atLeast(0)},
	{Name: "replica.alter.log.dirs.io.max.bytes.per.second", Type: Long, Default: "9223372036854775807", Valid: atLeast(0)},
}

func words(text string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// DynamicMode says whether a key can be set at run time.
func DynamicMode(name string) Mode {
	switch {
	case clusterWideKeys[name]:
		return ClusterWide
	case perBrokerKeys[name]:
		return PerBroker
	}
	return ReadOnly
}

// DynamicKey finds the key that a name means at run time: a broker key, one with
// a listener's prefix, or one that exists at run time only.
func DynamicKey(name string) (*Key, bool) {
	if key, ok := BrokerKey(name); ok {
		return key, true
	}
	for i := range throttleKeys {
		if throttleKeys[i].Name == name {
			return &throttleKeys[i], true
		}
	}
	base, ok := listenerKey(name)
	if !ok {
		return nil, false
	}
	if key, ok := BrokerKey(base); ok {
		return key, true
	}
	// Behind the listener may come a mechanism.
	if _, rest, ok := strings.Cut(base, "."); ok {
		return BrokerKey(rest)
	}
	return nil, false
}

// listenerKey returns KEY of listener.name.LISTENER.KEY.
func listenerKey(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", false
	}
	_, base, ok := strings.Cut(rest, ".")
	return base, ok
}

// BrokerSynonyms are the broker keys of which the first that is set counts for
// name, name among them.
func BrokerSynonyms(name string) []string {
	switch name {
	case "log.roll.ms", "log.roll.hours":
		return []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	}
	if base, ok := listenerKey(name); ok {
		return []string{name, base}
	}
	return []string{name}
}

// ValidateDynamic checks all that would be set at run time, for one broker or
// for all, where now is what counts at present. The texts are Kafka's, and so is
// the code that they are answered with: INVALID_REQUEST, not INVALID_CONFIG.
func ValidateDynamic(props map[string]string, perBroker bool, now Layers) error {
	if err := validateDynamic(props, perBroker, now); err != nil {
		return protocol.Errorf(protocol.ErrInvalidRequest, "%s", err)
	}
	return nil
}

func validateDynamic(props map[string]string, perBroker bool, now Layers) error {
	names := sortedNames(props)
	refuse := func(text string, is func(name string) bool) error {
		var found []string
		for _, name := range names {
			if is(name) {
				found = append(found, name)
			}
		}
		if len(found) == 0 {
			return nil
		}
		return errorf("%s: [%s]", text, strings.Join(found, ", "))
	}
	if err := refuse("Cannot update these configs dynamically", func(name string) bool {
		_, known := BrokerKey(name)
		return known && DynamicMode(name) == ReadOnly
	}); err != nil {
		return err
	}
	if err := refuse("These security configs can be dynamically updated only per-listener using the listener prefix",
		func(name string) bool { return listenerOnlyKeys[name] }); err != nil {
		return err
	}
	for _, name := range names {
		key, ok := DynamicKey(name)
		if !ok {
			continue // keys of plug-ins; nobody knows what is valid
		}
		if _, err := key.Parse(props[name]); err != nil {
			return err
		}
		if value := trim(props[name]); key.Type == Class && value != key.Default {
			return invalid(key.Name, value, "Class "+value+" could not be found.") // there are none here
		}
	}
	if !perBroker {
		if err := refuse("Cannot update these configs at default cluster level, broker id must be specified", func(name string) bool {
			base, prefixed := listenerKey(name)
			return perBrokerKeys[name] || prefixed && !listenerClusterKeys[base]
		}); err != nil {
			return err
		}
	}
	next := now
	if perBroker {
		next.Broker = FromMap(props)
	} else {
		next.BrokerDefault = FromMap(props)
	}
	return validateEffective(now, next)
}

// validateEffective checks what a change would make of the broker's effective
// values.
func validateEffective(now, next Layers) error {
	if err := validateLogTimes(next); err != nil {
		return err
	}
	if err := validatePerIP(next); err != nil {
		return err
	}
	switch threads := next.brokerInt("log.cleaner.threads"); {
	case threads == 0:
		return errorf("/ by zero") // so Kafka says
	case next.brokerInt("log.cleaner.dedupe.buffer.size")/threads <= 1<<20:
		return errorf("requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		interval, most := "group."+kind+".assignment.interval.ms", "group."+kind+".max.assignment.interval.ms"
		if next.brokerInt(interval) > next.brokerInt(most) {
			return errorf("%s must be less than or equal to %s", interval, most)
		}
	}
	if err := validateCordoned(next); err != nil {
		return err
	}
	if err := validateThreads(now, next); err != nil {
		return dynamicError(err)
	}
	if err := validateConnections(next); err != nil {
		return dynamicError(err)
	}
	return validateLocalRetention(next)
}

// validateLogTimes checks the times that the table of broker keys leaves open.
func validateLogTimes(next Layers) error {
	switch {
	case topicInt(next, "segment.ms") < 1:
		return errorf("requirement failed: log.roll.ms must be greater than or equal to 1")
	case topicInt(next, "segment.jitter.ms") < 0:
		return errorf("requirement failed: log.roll.jitter.ms must be greater than or equal to 0")
	case topicInt(next, "retention.ms") == 0:
		return errorf("requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
	}
	return nil
}

// topicInt is the value that counts for a topic that says nothing itself.
func topicInt(l Layers, name string) int64 {
	key := topicIndex[name]
	value, err := key.parse(key.Resolve(l).Value)
	if err != nil {
		value, _ = key.parse(key.Default)
	}
	return value.Int
}

func validatePerIP(next Layers) error {
	overrides, err := parsePerIP(next.brokerText(perIPOverridesKey))
	if err != nil {
		return err
	}
	if next.brokerInt("max.connections.per.ip") == 0 && len(overrides) == 0 {
		return errorf("requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.")
	}
	var wrong []string
	for _, o := range overrides {
		if !hostPattern.MatchString(o.host) {
			wrong = append(wrong, o.host)
		}
	}
	if len(wrong) > 0 {
		return errorf("%s contains invalid addresses : %s", perIPOverridesKey, strings.Join(wrong, ","))
	}
	return nil
}

// validateConnections refuses bounds that would let nobody in, of the broker and
// of each of its listeners.
func validateConnections(next Layers) error {
	prefixes := []string{""}
	for _, entry := range splitList(next.brokerText("listeners")) {
		if l, err := parseListener(entry); err == nil {
			prefixes = append(prefixes, listenerPrefix(l.Name))
		}
	}
	for _, prefix := range prefixes {
		for _, name := range listenerNames {
			text, ok := next.BrokerValue(prefix + name)
			if !ok {
				continue
			}
			if value, err := brokerIndex[name].parse(text); err == nil && value.Int <= 0 {
				return errorf("Invalid %s %d", name, value.Int)
			}
		}
	}
	return nil
}

// validateCordoned checks that the directories to be cordoned are the broker's.
func validateCordoned(next Layers) error {
	dirs := next.brokerText("log.dirs")
	if dirs == "" {
		dirs = next.brokerText("log.dir")
	}
	var missing []string
	for _, dir := range splitList(next.brokerText("cordoned.log.dirs")) {
		if dir != "*" && !slices.Contains(splitList(dirs), dir) {
			missing = append(missing, dir)
		}
	}
	if len(missing) > 0 {
		return errorf("requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : %s", strings.Join(missing, ", "))
	}
	return nil
}

// dynamicError puts an error into the words in which Kafka reports what a part
// of the broker objects to.
func dynamicError(err error) error {
	return errorf("Invalid value org.apache.kafka.common.config.ConfigException: %s for configuration Invalid dynamic configuration", err)
}

func validateThreads(now, next Layers) error {
	for _, name := range []string{
		"num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads",
		"remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
		"remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
	} {
		before, after := now.brokerInt(name), next.brokerInt(name)
		switch {
		case after == before:
		case after < before/2:
			return errorf("Dynamic thread count update validation failed for %s=%d, value should be at least half the current value %d", name, after, before)
		case after > before*2:
			return errorf("Dynamic thread count update validation failed for %s=%d, value should not be greater than double the current value %d", name, after, before)
		}
	}
	before, after := now.brokerInt("log.cleaner.threads"), next.brokerInt("log.cleaner.threads")
	switch {
	case after == before:
	case after < before/2:
		return errorf("Log cleaner threads cannot be reduced to less than half the current value %d", before)
	case after > before*2:
		return errorf("Log cleaner threads cannot be increased to more than double the current value %d", before)
	}
	return nil
}

func validateLocalRetention(next Layers) error {
	for _, pair := range []struct{ local, total, topic string }{
		{"log.local.retention.ms", "log.retention.ms", "retention.ms"},
		{"log.local.retention.bytes", "log.retention.bytes", "retention.bytes"},
	} {
		local, total := next.brokerInt(pair.local), topicInt(next, pair.topic)
		switch {
		case total < 0 || local == -2:
		case local == -1:
			return dynamicError(errorf("Invalid value -1 for configuration %s: Value must not be -1 as %s value is set as %d.", pair.local, pair.total, total))
		case local > total:
			return dynamicError(errorf("Invalid value %d for configuration %s: Value must not be more than %s property value: %d", local, pair.local, pair.total, total))
		}
	}
	return nil
}

// BrokerValue is the value of a broker key that counts, as it was written; false
// where there is none.
func (l Layers) BrokerValue(name string) (string, bool) {
	for _, layer := range l.shared() {
		if value, ok := layer.lookup.get(name); ok {
			return value, true
		}
	}
	return brokerDefault(name)
}

// BrokerInt is BrokerValue of a key of whole numbers.
func (l Layers) BrokerInt(name string) int64 { return l.brokerInt(name) }

func (l Layers) brokerText(name string) string {
	value, _ := l.BrokerValue(name)
	return trim(value)
}

// brokerInt is the value of a key of whole numbers. What is in the file or in
// the image was checked when it was set.
func (l Layers) brokerInt(name string) int64 {
	key := brokerIndex[name]
	v, err := key.parse(l.brokerText(name))
	if err != nil {
		v, _ = key.parse(key.Default)
	}
	return v.Int
}

// splitList reads the items of a list, none for an empty text.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}
