package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klamm/klamm/config/properties"
	"github.com/klamm/klamm/protocol"
)

// Load reads a server.properties; none for an empty path. What KAFKA_* variables
// of the environment say counts more than the file, and overrides, KEY=VALUE
// pairs, count more than both.
func Load(path string, env, overrides []string) (*Config, error) {
	var props []properties.Property
	if path == "" {
		path = Environment
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		defer file.Close()
		if props, err = properties.Parse(file); err != nil {
			return nil, fmt.Errorf("read the configuration %s: %w", path, err)
		}
	}
	props = append(props, FromEnvironment(env)...)
	for _, override := range overrides {
		key, value, ok := strings.Cut(override, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--override %s: valid is KEY=VALUE", override)
		}
		props = append(props, properties.Property{Key: key, Value: value})
	}
	return Parse(path, props)
}

// Parse makes a configuration of properties, the last of equal keys counts; a
// property without a line is an override or from the environment. The error names every wrong value.
func Parse(file string, props []properties.Property) (*Config, error) {
	r := &reader{file: file, values: make(map[string]properties.Property), used: make(map[string]bool), wrong: make(map[string]bool)}
	var repeated []string
	for _, p := range props {
		if _, twice := r.values[p.Key]; twice && p.Line > 0 {
			repeated = append(repeated, p.Key)
		}
		r.values[p.Key] = p
	}
	r.checkAll()
	c := r.config()
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	c.File = file
	c.Static = make(map[string]string, len(r.values))
	for key, p := range r.values {
		c.Static[key] = p.Value
	}
	// Each is known by the other's name, too.
	for _, names := range [][2]string{{"node.id", "broker.id"}, {"broker.id", "node.id"}} {
		if id, ok := c.Static[names[0]]; ok && !r.set(names[1]) {
			c.Static[names[1]] = id
		}
	}
	c.Unknown, c.Unused = r.leftOver()
	slices.Sort(repeated)
	c.Repeated = slices.Compact(repeated)
	return c, nil
}

// reader hands out values, remembers which keys were asked for, and collects
// what is wrong, so that one start shows all mistakes.
type reader struct {
	file   string
	values map[string]properties.Property
	used   map[string]bool
	wrong  map[string]bool // keys that failed: what follows from them is not worth a message
	errs   []error
}

// fail says that a key's value is wrong.
func (r *reader) fail(key, format string, args ...any) {
	r.wrong[key] = true
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.position(key), fmt.Sprintf(format, args...)))
}

// position names file, line, key and value. Secrets do not fail, and would not
// be shown.
func (r *reader) position(key string) string {
	p, ok := r.values[key]
	switch {
	case !ok:
		return fmt.Sprintf("%s: %s is not set", r.file, key)
	case p.Line == envLine:
		return fmt.Sprintf("%s=%s", envName(key), p.Value)
	case p.Line == 0:
		return fmt.Sprintf("--override %s=%s", key, p.Value)
	}
	return fmt.Sprintf("%s:%d: %s=%s", r.file, p.Line, key, p.Value)
}

// checkAll looks at every known key that is set, read or not: Kafka does not
// start with a wrong value either, and a mistake in a key that is not used yet
// should not wait until it is.
func (r *reader) checkAll() {
	for i := range brokerKeys {
		key := &brokerKeys[i]
		p, ok := r.values[key.Name]
		switch {
		case !ok && key.Required && key.Name != "node.id":
			r.fail(key.Name, "valid is %s", key.describe())
		case ok:
			if _, err := key.Parse(p.Value); err != nil {
				r.fail(key.Name, "%v; valid is %s", err, key.describe())
			}
		}
	}
}

// describe says what a key takes.
func (k *Key) describe() string {
	kind := map[Type]string{
		Boolean: "true or false", Int: "a 32-bit number", Long: "a 64-bit number", Short: "a 16-bit number",
		Double: "a number", List: "a list, separated by commas", String: "a text", Class: "a class name", Password: "a text",
	}[k.Type]
	if k.Valid == nil {
		return kind
	}
	return kind + ", " + k.Valid.String()
}

// value is the key's value or default. A wrong one was reported already; the
// default then stands in, so that reading goes on.
func (r *reader) value(name string) Value {
	r.used[name] = true
	key := brokerIndex[name]
	if p, ok := r.values[name]; ok && !r.wrong[name] {
		value, _ := key.Parse(p.Value)
		return value
	}
	if key.Null || key.Required {
		return Value{}
	}
	value, _ := key.parse(key.Default)
	return value
}

func (r *reader) set(name string) bool {
	_, ok := r.values[name]
	r.used[name] = true
	return ok
}

func (r *reader) text(name string) string { return r.value(name).Text }

func (r *reader) flag(name string) bool { return r.value(name).Bool }

func (r *reader) long(name string) int64 { return r.value(name).Int }

func (r *reader) int32(name string) int32 { return int32(r.value(name).Int) }

// list drops repetitions, as Kafka does.
func (r *reader) list(name string) []string {
	var items []string
	for _, item := range r.value(name).List {
		if !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// ms reads a time. What does not fit into a Duration, such as Kafka's way to
// say never, becomes the longest one.
func (r *reader) ms(name string) time.Duration {
	n := r.long(name)
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(max(n, -1)) * time.Millisecond
}

// positiveMs reads a time that must pass.
func (r *reader) positiveMs(name string) time.Duration {
	d := r.ms(name)
	if d <= 0 && !r.wrong[name] {
		r.fail(name, "valid is at least 1")
	}
	return d
}

func (r *reader) config() *Config {
	c := &Config{Node: r.node()}
	c.Listeners = r.listeners(c.Node)
	c.Quorum = r.quorum(c.Node)
	c.Dirs = r.dirs()
	c.Metadata = Metadata{
		SegmentBytes:     r.int32("metadata.log.segment.bytes"),
		SegmentAge:       r.ms("metadata.log.segment.ms"),
		SnapshotBytes:    r.long("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotInterval: r.ms("metadata.log.max.snapshot.interval.ms"),
		IdleInterval:     r.ms("metadata.max.idle.interval.ms"),
		RetentionBytes:   r.long("metadata.max.retention.bytes"),
		RetentionAge:     r.ms("metadata.max.retention.ms"),
	}
	r.authorizer()
	c.Topics = r.topics()
	c.Controller = r.controller()
	c.Broker = Broker{
		HeartbeatInterval:   r.positiveMs("broker.heartbeat.interval.ms"),
		RegistrationTimeout: r.positiveMs("initial.broker.registration.timeout.ms"),
		ControlledShutdown:  r.flag("controlled.shutdown.enable"),
		FetchSessions:       int(r.long("max.incremental.fetch.session.cache.slots")),
		FetchMaxBytes:       r.int32("fetch.max.bytes"),
		RackAware:           r.rackAware(),
		RequestTimeout:      r.positiveMs("request.timeout.ms"),
	}
	c.Replicas = Replicas{
		LagTime:       r.positiveMs("replica.lag.time.max.ms"),
		Fetchers:      int(r.long("num.replica.fetchers")),
		FetchWait:     r.ms("replica.fetch.wait.max.ms"),
		FetchMinBytes: r.int32("replica.fetch.min.bytes"),
		FetchBytes:    r.int32("replica.fetch.max.bytes"),
		ResponseBytes: r.int32("replica.fetch.response.max.bytes"),
		FetchBackoff:  r.ms("replica.fetch.backoff.ms"),
		QuotaWindows:  int(r.long("replication.quota.window.num")),
		QuotaWindow:   time.Duration(r.long("replication.quota.window.size.seconds")) * time.Second,
	}
	c.Groups = r.groups()
	c.Network = r.network()
	c.Telemetry = r.telemetry()
	c.Storage = Storage{
		CheckpointInterval:      r.ms("log.flush.offset.checkpoint.interval.ms"),
		StartOffsetInterval:     r.ms("log.flush.start.offset.checkpoint.interval.ms"),
		HighWatermarkInterval:   r.positiveMs("replica.high.watermark.checkpoint.interval.ms"),
		ProducerExpirationCheck: r.ms("producer.id.expiration.check.interval.ms"),
		RetentionInterval:       r.positiveMs("log.retention.check.interval.ms"),
	}
	c.Dynamic = r.dynamic(c.Listeners.Names())
	return c
}

// dynamic reads what can change at run time.
func (r *reader) dynamic(listeners []string) Dynamic {
	for _, name := range dynamicNames {
		r.used[name] = true
	}
	for _, listener := range listeners {
		for _, base := range listenerNames {
			name := listenerPrefix(listener) + base
			if !r.set(name) {
				continue
			}
			key := *brokerIndex[base]
			key.Name = name
			if _, err := key.Parse(r.values[name].Value); err != nil {
				r.fail(name, "%v; valid is %s", err, key.describe())
			}
		}
	}
	static := Layers{Static: func(name string) (string, bool) {
		p, ok := r.values[name]
		return p.Value, ok && !r.wrong[name]
	}}
	if err := validatePerIP(static); err != nil {
		name := perIPOverridesKey
		if !r.set(name) {
			name = "max.connections.per.ip"
		}
		r.fail(name, "%v; valid overrides are a list of HOST:COUNT", err)
	}
	return ResolveDynamic(static, listeners)
}

func (r *reader) node() Node {
	id, old := r.value("node.id").Int, r.value("broker.id").Int
	hasID, hasOld := r.set("node.id"), r.set("broker.id") && old != -1
	switch {
	case r.wrong["node.id"] || r.wrong["broker.id"]:
	case !hasID && !hasOld:
		r.fail("node.id", "valid is a number, at least 0, that no other node has")
	case !hasID:
		if id = old; id < 0 {
			r.fail("broker.id", "valid is at least 0")
		}
	case hasOld && old != id:
		r.fail("broker.id", "node.id is %d; valid is the same number, or no broker.id at all", id)
	}
	roles := r.list("process.roles")
	return Node{
		ID:           protocol.NodeID(id),
		IsBroker:     slices.Contains(roles, "broker"),
		IsController: slices.Contains(roles, "controller"),
		Rack:         r.text("broker.rack"),
	}
}

// standardAuthorizer is Kafka's authorizer of clusters without ZooKeeper.
const standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// authorizer checks authorizer.class.name. Kafka does not start without the class
// either; here there are no others to be loaded, and taking one would look as if
// it guarded something.
func (r *reader) authorizer() {
	if class := r.text("authorizer.class.name"); class != "" && class != standardAuthorizer {
		r.fail("authorizer.class.name", "no classes can be loaded here; valid is %s, or nothing", standardAuthorizer)
	}
}

// What replica.selector.class may name, with its package.
const (
	rackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
	leaderSelector    = "org.apache.kafka.common.replica.LeaderSelector"
)

// rackAware reads replica.selector.class. Kafka does not start without the class.
func (r *reader) rackAware() bool {
	switch r.text("replica.selector.class") {
	case rackAwareSelector:
		return true
	case "", leaderSelector:
	default:
		r.fail("replica.selector.class", "no classes can be loaded here; valid is %s, %s, or nothing", rackAwareSelector, leaderSelector)
	}
	return false
}

func (r *reader) dirs() Dirs {
	var d Dirs
	d.Log = r.list("log.dir")
	if dirs := r.list("log.dirs"); len(dirs) > 0 {
		d.Log = dirs
	}
	if d.Metadata = r.text("metadata.log.dir"); d.Metadata == "" && len(d.Log) > 0 {
		d.Metadata = d.Log[0]
	}
	return d
}

func (r *reader) topics() Topics {
	factor := r.long("default.replication.factor")
	if factor < 1 || factor > math.MaxInt16 {
		r.fail("default.replication.factor", "valid is 1 to %d", math.MaxInt16)
	}
	r.checkTopicDefaults()
	r.used["producer.id.expiration.ms"] = true // ResolveTopic reads it
	return Topics{
		NumPartitions:     r.int32("num.partitions"),
		ReplicationFactor: int16(factor),
		AutoCreate:        r.flag("auto.create.topics.enable"),
		Delete:            r.flag("delete.topic.enable"),
	}
}

func (r *reader) controller() Controller {
	c := Controller{
		SessionTimeout:       r.positiveMs("broker.session.timeout.ms"),
		UncleanInterval:      r.ms("unclean.leader.election.interval.ms"),
		FastFailureDetection: r.ownFlag("klamm.fast.failure.detection", true),
	}
	interval := time.Duration(min(r.long("leader.imbalance.check.interval.seconds"), math.MaxInt64/int64(time.Second))) * time.Second
	if r.flag("auto.leader.rebalance.enable") {
		c.RebalanceInterval = interval
	}
	return c
}

// ownFlag reads a key that Kafka does not have, and so no table either.
func (r *reader) ownFlag(key string, otherwise bool) bool {
	if !r.set(key) {
		return otherwise
	}
	switch value := strings.ToLower(trim(r.values[key].Value)); value {
	case "true", "false":
		return value == "true"
	}
	r.fail(key, "valid is true or false")
	return otherwise
}

// checkTopicDefaults holds the broker keys that stand for topic keys to the
// topic keys' limits, where those are stricter.
func (r *reader) checkTopicDefaults() {
	for i := range topicKeys {
		key := &topicKeys[i]
		for _, synonym := range key.Synonyms {
			r.used[synonym.Name] = r.used[synonym.Name] || !key.NoEffect
			p, ok := r.values[synonym.Name]
			if !ok || r.wrong[synonym.Name] {
				continue
			}
			if _, err := key.Parse(synonym.convert(p.Value)); err != nil {
				r.fail(synonym.Name, "%v", err)
			}
		}
	}
	// Kafka asks a little more here than of a topic.
	for _, name := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if p, ok := r.values[name]; ok && !r.wrong[name] && trim(p.Value) == "0" {
			r.fail(name, "valid is -1 for no limit, or at least 1")
		}
	}
}

func (r *reader) groups() Groups {
	return Groups{
		InitialRebalanceDelay: max(r.ms("group.initial.rebalance.delay.ms"), 0),
		MinSessionTimeout:     r.ms("group.min.session.timeout.ms"),
		MaxSessionTimeout:     r.ms("group.max.session.timeout.ms"),
		MaxSize:               int(r.long("group.max.size")),
		OffsetMetadataBytes:   int(r.long("offset.metadata.max.bytes")),
		OffsetsRetention:      time.Duration(r.long("offsets.retention.minutes")) * time.Minute,
		OffsetsCheckInterval:  r.ms("offsets.retention.check.interval.ms"),
		CommitTimeout:         r.ms("offsets.commit.timeout.ms"),
		LoadBytes:             int(r.long("offsets.load.buffer.size")),
		OffsetsPartitions:     r.int32("offsets.topic.num.partitions"),
		OffsetsReplicas:       int16(r.long("offsets.topic.replication.factor")),
		OffsetsSegmentBytes:   r.int32("offsets.topic.segment.bytes"),
	}
}

func (r *reader) network() Network {
	n := Network{
		MaxRequestBytes: r.int32("socket.request.max.bytes"),
		MaxQueuedBytes:  r.long("queued.max.request.bytes"),
		IdleTimeout:     r.ms("connections.max.idle.ms"),
		SendBuffer:      -1,
		ReceiveBuffer:   -1,
	}
	if r.set("socket.send.buffer.bytes") {
		n.SendBuffer = int(r.long("socket.send.buffer.bytes"))
	}
	if r.set("socket.receive.buffer.bytes") {
		n.ReceiveBuffer = int(r.long("socket.receive.buffer.bytes"))
	}
	if r.set("socket.listen.backlog.size") {
		n.Backlog = int(r.long("socket.listen.backlog.size"))
	}
	if n.MaxQueuedBytes > 0 && n.MaxQueuedBytes < int64(n.MaxRequestBytes) {
		r.fail("queued.max.request.bytes", "valid is -1 for no bound, or at least socket.request.max.bytes (%d)", n.MaxRequestBytes)
	}
	return n
}

// leftOver splits the keys that nobody read into those that Kafka does not
// know and those that have no effect here yet.
func (r *reader) leftOver() (unknown, unused []string) {
	for name := range r.values {
		switch {
		case r.used[name]:
		case isKafkaKey(name):
			unused = append(unused, name)
		default:
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	slices.Sort(unused)
	return unknown, unused
}

// isKafkaKey also knows the forms that are no single key.
func isKafkaKey(name string) bool {
	if _, ok := brokerIndex[name]; ok {
		return true
	}
	for _, prefix := range []string{"listener.name.", "config.providers.", "rsm.config.", "rlmm.config."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
