package config

import (
	"regexp"
	"slices"
	"strings"
)

// FromGroup and FromClientMetrics are the sources of what is set for a group,
// and for a subscription of client metrics.
const (
	FromClientMetrics Source = 7
	FromGroup         Source = 8
)

// groupKeys are all group keys of Kafka 4.4, in the order in which they are
// checked. A group inherits from the broker keys that are their synonyms.
var groupKeys = []Key{
	{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Synonyms: same("group.consumer.session.timeout.ms"), Doc: "Time in milliseconds after which a member of a consumer group that is not heard of is removed."},
	{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Synonyms: same("group.consumer.heartbeat.interval.ms"), Doc: "Interval in milliseconds at which members of a consumer group send heartbeats."},
	{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Synonyms: same("group.consumer.assignment.interval.ms"), Doc: "Least time in milliseconds between two assignments of a consumer group."},
	{Name: "consumer.assignor.offload.enable", Type: Boolean, Default: "true", Internal: true, Synonyms: same("group.consumer.assignor.offload.enable"), Doc: "Whether assignments of a consumer group are computed in the background."},
	{Name: "share.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Synonyms: same("group.share.session.timeout.ms"), Doc: "Time in milliseconds after which a member of a share group that is not heard of is removed."},
	{Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Synonyms: same("group.share.heartbeat.interval.ms"), Doc: "Interval in milliseconds at which members of a share group send heartbeats."},
	{Name: "share.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Synonyms: same("group.share.assignment.interval.ms"), Doc: "Least time in milliseconds between two assignments of a share group."},
	{Name: "share.assignor.offload.enable", Type: Boolean, Default: "true", Internal: true, Synonyms: same("group.share.assignor.offload.enable"), Doc: "Whether assignments of a share group are computed in the background."},
	{Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Valid: atLeast(1000), Synonyms: same("group.share.record.lock.duration.ms"), Doc: "Time in milliseconds for which a record that was handed out is held for its receiver."},
	{Name: "share.delivery.count.limit", Type: Int, Default: "5", Valid: atLeast(2), Synonyms: same("group.share.delivery.count.limit"), Doc: "Number of times that a record of a share group is handed out at most."},
	{Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Valid: atLeast(100), Synonyms: same("group.share.partition.max.record.locks"), Doc: "Number of records of a partition that may be held at a time."},
	{Name: "share.auto.offset.reset", Type: String, Default: "latest", Valid: offsetReset{}, Doc: "Where a share group begins to read: earliest, latest, or by_duration: and a duration before now."},
	{Name: "share.isolation.level", Type: String, Default: "read_uncommitted", Valid: oneOf{"read_committed", "read_uncommitted"}, Doc: "Whether a share group sees records of transactions that are not committed."},
	{Name: "share.renew.acknowledge.enable", Type: Boolean, Default: "true", Doc: "Whether a receiver of a share group may renew its hold on a record."},
	{Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1), Synonyms: same("group.streams.session.timeout.ms"), Doc: "Time in milliseconds after which a member of a streams group that is not heard of is removed."},
	{Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1), Synonyms: same("group.streams.heartbeat.interval.ms"), Doc: "Interval in milliseconds at which members of a streams group send heartbeats."},
	{Name: "streams.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0), Synonyms: same("group.streams.assignment.interval.ms"), Doc: "Least time in milliseconds between two assignments of a streams group."},
	{Name: "streams.assignor.offload.enable", Type: Boolean, Default: "true", Internal: true, Synonyms: same("group.streams.assignor.offload.enable"), Doc: "Whether assignments of a streams group are computed in the background."},
	{Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Valid: atLeast(0), Synonyms: same("group.streams.initial.rebalance.delay.ms"), Doc: "Time in milliseconds for which a new streams group waits for further members."},
	{Name: "streams.num.standby.replicas", Type: Int, Default: "0", Valid: atLeast(0), Synonyms: same("group.streams.num.standby.replicas"), Doc: "Number of standby copies of each task's state."},
	{Name: "streams.assignor.name", Type: String, Default: "sticky", Synonyms: same("group.streams.assignors"), Doc: "Assignor of a streams group, one of the broker's."},
	{Name: "streams.rack.aware.assignment.tags", Type: List, Valid: itemList{orEmpty: true}, Synonyms: same("group.streams.rack.aware.assignment.tags"), Doc: "Client tags over which standby copies are spread."},
	{Name: "streams.task.offset.interval.ms", Type: Int, Default: "60000", Valid: atLeast(1), Internal: true, Synonyms: same("group.streams.task.offset.interval.ms"), Doc: "Interval in milliseconds at which members of a streams group tell their tasks' offsets."},
	{Name: "streams.num.warmup.replicas", Type: Int, Default: "2", Valid: atLeast(0), Internal: true, Synonyms: same("group.streams.num.warmup.replicas"), Doc: "Number of tasks that may warm up on another member at a time."},
	{Name: "streams.acceptable.recovery.lag", Type: Long, Default: "10000", Valid: atLeast(0), Internal: true, Synonyms: same("group.streams.acceptable.recovery.lag"), Doc: "Lag in records at which a copy counts as caught up."},
	{Name: "errors.deadletterqueue.topic.name", Type: String, Doc: "Topic for records that a share group could not process. Empty: none."},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: Boolean, Default: "false", Doc: "Whether the dead-letter topic gets the record's key and value too."},
}

// groupBounds are the broker keys between which the value of a group key lies.
var groupBounds = []struct{ key, min, max string }{
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
}

var groupListed, groupIndex = listKeys(groupKeys)

// listKeys returns the keys that an answer lists, by name, and all by name.
func listKeys(keys []Key) (listed []*Key, index map[string]*Key) {
	index = make(map[string]*Key, len(keys))
	for i := range keys {
		index[keys[i].Name] = &keys[i]
		if !keys[i].Internal {
			listed = append(listed, &keys[i])
		}
	}
	slices.SortFunc(listed, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return listed, index
}

// GroupKeys are the group keys that an answer lists, sorted by name. The slice
// is shared: nobody changes it.
func GroupKeys() []*Key { return groupListed }

// ValidateGroup checks the configs that a group has, or would have, against the
// bounds that the broker sets. Errors are as those of ValidateTopic.
func ValidateGroup(overrides map[string]string, layers Layers) error {
	for _, name := range sortedNames(overrides) {
		if _, ok := groupIndex[name]; !ok {
			return errorf("Unknown group config name: %s", name)
		}
	}
	layers.Topic = FromMap(overrides)
	values := make(map[string]Value, len(groupKeys))
	for i := range groupKeys {
		key := &groupKeys[i]
		v, err := key.Parse(key.Resolve(layers).Value)
		if err != nil {
			return err
		}
		values[key.Name] = v
	}
	for _, bound := range groupBounds {
		if _, ok := overrides[bound.key]; !ok {
			continue
		}
		if err := checkBound(bound.key, values[bound.key].Int, bound.min, bound.max, layers); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if values[session].Int <= values[heartbeat].Int {
			return errorf("%s must be greater than %s", session, heartbeat)
		}
	}
	if name, ok := overrides["streams.assignor.name"]; ok {
		assignors := layers.brokerText("group.streams.assignors")
		if !slices.Contains(splitList(assignors), name) {
			return errorf("streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [%s].", name, strings.Join(splitList(assignors), ", "))
		}
	}
	tags := slices.Sorted(slices.Values(values["streams.rack.aware.assignment.tags"].List))
	if len(slices.Compact(tags)) < len(values["streams.rack.aware.assignment.tags"].List) {
		return errorf("streams.rack.aware.assignment.tags must not contain duplicate tag keys.")
	}
	if strings.HasPrefix(values["errors.deadletterqueue.topic.name"].Text, "__") {
		return errorf("errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
	}
	return nil
}

func checkBound(name string, value int64, minKey, maxKey string, layers Layers) error {
	switch {
	case minKey == "":
		if most := layers.brokerInt(maxKey); value > most {
			return errorf("%s must be less than or equal to %d", name, most)
		}
	case maxKey == "":
		if least := layers.brokerInt(minKey); value < least {
			return errorf("%s must be greater than or equal to %d", name, least)
		}
	default:
		if least, most := layers.brokerInt(minKey), layers.brokerInt(maxKey); value < least || value > most {
			return errorf("%s must be in the range %d to %d inclusive.", name, least, most)
		}
	}
	return nil
}

// DescribeGroup gives what DescribeConfigs answers for a group key, as Describe
// does for a topic key; Layers.Topic is what the group sets.
func (k *Key) DescribeGroup(l Layers) (Setting, []Setting) {
	effective, places := k.Describe(l)
	for i := range places {
		if places[i].Source == FromTopic {
			places[i].Source = FromGroup
		}
	}
	if effective.Source == FromTopic {
		effective.Source = FromGroup
	}
	switch {
	case len(k.Synonyms) == 0:
		places = append(places, Setting{Name: k.Name, Value: k.Default, Null: k.Null, Source: FromDefault})
	case len(places) == 0:
		places = []Setting{effective}
	}
	return effective, places
}

// offsetReset is the value of share.auto.offset.reset.
type offsetReset struct{}

// isoDuration is what Java's Duration reads, without a sign.
var isoDuration = regexp.MustCompile(`(?i)^P(\d+D)?(T(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?$`)

func (offsetReset) check(key string, v Value) error {
	duration, ok := strings.CutPrefix(v.Text, "by_duration:")
	last := strings.ToUpper(duration)
	if v.Text == "earliest" || v.Text == "latest" ||
		ok && isoDuration.MatchString(duration) && last != "P" && !strings.HasSuffix(last, "T") {
		return nil
	}
	return invalid(key, v.Text, "Invalid value `"+v.Text+"` for configuration "+key+
		". The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.")
}

func (offsetReset) String() string { return "earliest, latest or by_duration:DURATION" }
