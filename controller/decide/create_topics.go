package decide

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/controller/placement"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// maxPartitionsPerRequest bounds what one creation may cost all brokers.
const maxPartitionsPerRequest = 10_000

// CreateTopics decides a creation. Each topic stands for itself: one that is
// refused does not fail the others. The records of the request are atomic.
// With ValidateOnly the answer is the same and there are no records.
func CreateTopics(img *metadata.Image, req *kmsg.CreateTopicsRequest, env Env) ([]record.Record, *kmsg.CreateTopicsResponse) {
	resp := kmsg.NewPtrCreateTopicsResponse()
	once, twice := topicsByCount(req.Topics)
	if tooManyPartitions(once, env) {
		err := protocol.Errorf(protocol.ErrPolicyViolation, "Excessively large number of partitions per request.")
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, refusedTopic(req.Topics[i].Topic, err))
		}
		return nil, resp
	}
	var records []record.Record
	var reserved []kmsg.CreateTopicsResponseTopic
	for _, topic := range once {
		if topic.Topic == protocol.MetadataTopic {
			reserved = append(reserved, refusedTopic(topic.Topic, protocol.Errorf(protocol.ErrInvalidRequest,
				"Creation of internal topic %s is prohibited.", protocol.MetadataTopic)))
			continue
		}
		created, answer, err := createTopic(img, topic, env)
		if err != nil {
			answer = refusedTopic(topic.Topic, err)
		}
		records = append(records, created...)
		resp.Topics = append(resp.Topics, answer)
	}
	for _, name := range twice {
		resp.Topics = append(resp.Topics, refusedTopic(name,
			protocol.Errorf(protocol.ErrInvalidRequest, "Duplicate topic name.")))
	}
	resp.Topics = append(resp.Topics, reserved...)
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

// topicsByCount separates the topics that are named once from the names that
// come more often; both in the request's order.
func topicsByCount(topics []kmsg.CreateTopicsRequestTopic) (once []*kmsg.CreateTopicsRequestTopic, twice []string) {
	count := make(map[string]int, len(topics))
	for i := range topics {
		count[topics[i].Topic]++
	}
	for i := range topics {
		switch name := topics[i].Topic; {
		case count[name] == 1:
			once = append(once, &topics[i])
		case count[name] > 1:
			twice = append(twice, name)
			count[name] = 0
		}
	}
	return once, twice
}

func tooManyPartitions(topics []*kmsg.CreateTopicsRequestTopic, env Env) bool {
	total := 0
	for _, t := range topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += len(t.ReplicaAssignment)
		case t.NumPartitions == -1:
			total += int(env.NumPartitions)
		case t.NumPartitions > 0:
			total += int(t.NumPartitions)
		}
	}
	return total > maxPartitionsPerRequest
}

func refusedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = name
	t.ErrorCode = int16(protocol.CodeOf(err))
	t.ErrorMessage = messageOf(err)
	t.NumPartitions, t.ReplicationFactor = -1, -1
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // empty; null would mean "not for you"
	return t
}

// messageOf is the text of an error for the client: its own, or that of the
// config package, or none.
func messageOf(err error) *string {
	var invalid *config.Error
	if errors.As(err, &invalid) {
		return &invalid.Text
	}
	return protocol.MessageOf(err)
}

// createTopic decides one topic. Checks come in Kafka's order, since it shows
// where several things are wrong: name, existence, configs, counts, placement.
func createTopic(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic, env Env) ([]record.Record, kmsg.CreateTopicsResponseTopic, error) {
	var none kmsg.CreateTopicsResponseTopic
	if _, ok := img.Topic(topic.Topic); ok {
		return nil, none, protocol.Errorf(protocol.ErrTopicAlreadyExists, "Topic '%s' already exists.", topic.Topic)
	}
	if err := protocol.ValidateTopicName(topic.Topic); err != nil {
		return nil, none, err
	}
	if other, ok := collision(img, topic.Topic); ok {
		return nil, none, protocol.Errorf(protocol.ErrInvalidTopicException,
			"Topic '%s' collides with existing topic: %s", topic.Topic, other)
	}
	configs, err := topicConfigs(img, topic.Configs, env)
	if err != nil {
		return nil, none, err
	}
	replicas, err := assignReplicas(img, topic, env)
	if err != nil {
		return nil, none, err
	}
	id := env.NewID()
	records := make([]record.Record, 0, 2+len(configs)+len(replicas))
	records = append(records, &record.Topic{Name: topic.Topic, TopicID: id})
	records = append(records, configRecords(img, topic.Topic, configs)...)
	for i, assigned := range replicas {
		records = append(records, newPartition(img, id, int32(i), assigned))
	}
	return records, createdTopic(img, topic.Topic, id, replicas, configs, env), nil
}

// setting is one config that a creation sets.
type setting struct{ name, value string }

// topicConfigs checks the configs of a creation. A key that is given twice has
// its last value.
func topicConfigs(img *metadata.Image, given []kmsg.CreateTopicsRequestTopicConfig, env Env) ([]setting, error) {
	var settings []setting
	var nulls []string
	overrides := make(map[string]string, len(given))
	for _, c := range given {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		if _, ok := overrides[c.Name]; ok {
			i := slices.IndexFunc(settings, func(s setting) bool { return s.name == c.Name })
			settings[i].value = *c.Value
		} else {
			settings = append(settings, setting{c.Name, *c.Value})
		}
		overrides[c.Name] = *c.Value
	}
	if len(nulls) > 0 {
		return nil, config.NullTopicConfigs(nulls...)
	}
	if len(settings) == 0 {
		return nil, nil
	}
	return settings, config.ValidateTopic(overrides, topicLayers(img, env, nil))
}

func configRecords(img *metadata.Image, topic string, settings []setting) []record.Record {
	var records []record.Record
	for _, s := range settings {
		records = append(records, &record.Config{
			ResourceType: metadata.ResourceTopic, ResourceName: topic, Name: s.name, Value: &s.value,
		})
		// What counts as eligible depends on the minimum: it starts afresh
		// whenever that is set, on creation too, as in Kafka.
		if s.name == minISRKey && elrEnabled(img) {
			records = append(records, &record.ClearELR{TopicName: topic})
		}
	}
	return records
}

// newPartition is a partition's first state: led by its first replica that
// lives, with every replica that lives in the ISR. There is at least one.
func newPartition(img *metadata.Image, topic protocol.UUID, id int32, replicas []protocol.NodeID) record.Record {
	isr := living(img, replicas)
	dirs := make([]protocol.UUID, len(replicas))
	for i, replica := range replicas {
		dirs[i] = defaultDir(img, replica)
	}
	return &record.Partition{
		PartitionID: id,
		TopicID:     topic,
		Replicas:    replicas,
		ISR:         isr,
		Leader:      isr[0],
		Directories: dirs,
	}
}

func living(img *metadata.Image, replicas []protocol.NodeID) []protocol.NodeID {
	var ids []protocol.NodeID
	for _, id := range replicas {
		if active(img, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// defaultDir is the directory of a new replica: a broker with one directory gets
// that one, any other broker chooses itself and tells the controller (KIP-858).
func defaultDir(img *metadata.Image, id protocol.NodeID) protocol.UUID {
	b, ok := img.Broker(id)
	switch {
	case !ok || len(b.LogDirs) == 0:
		return protocol.MigratingDir
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	default:
		return protocol.UnassignedDir
	}
}

// createdTopic is the answer for a topic that gets created: what it has, with
// every effective config and its source (KIP-525).
func createdTopic(img *metadata.Image, name string, id protocol.UUID, replicas [][]protocol.NodeID, settings []setting, env Env) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.TopicID = name, id
	t.NumPartitions, t.ReplicationFactor = int32(len(replicas)), int16(len(replicas[0]))
	overrides := make(map[string]string, len(settings))
	for _, s := range settings {
		overrides[s.name] = s.value
	}
	layers := topicLayers(img, env, config.FromMap(overrides))
	keys := config.TopicKeys()
	t.Configs = make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(keys))
	for _, key := range keys {
		set := key.Resolve(layers)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.IsSensitive = key.Name, int8(set.Source), key.Sensitive()
		if !set.Null && !c.IsSensitive {
			c.Value = &set.Value
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}

// assignReplicas returns the replicas of each partition: those that the request
// names, or placed ones.
func assignReplicas(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic, env Env) ([][]protocol.NodeID, error) {
	if len(topic.ReplicaAssignment) > 0 {
		return manualAssignment(img, topic)
	}
	if topic.ReplicationFactor < -1 || topic.ReplicationFactor == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if topic.NumPartitions < -1 || topic.NumPartitions == 0 {
		return nil, protocol.Errorf(protocol.ErrInvalidPartitions,
			"Number of partitions was set to an invalid non-positive value.")
	}
	partitions, factor := topic.NumPartitions, topic.ReplicationFactor
	if partitions == -1 {
		partitions = env.NumPartitions
	}
	if factor == -1 {
		factor = env.ReplicationFactor
	}
	placed, err := placement.Place(placeable(img), int(partitions), int(factor), env.Rand)
	if err != nil {
		return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): %s", factor, err)
	}
	for _, replicas := range placed {
		if len(living(img, replicas)) == 0 {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
				"Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor)
		}
	}
	return placed, nil
}

// placeable are the brokers that may get replicas: all that have a directory
// which is not cordoned.
func placeable(img *metadata.Image) []placement.Broker {
	var brokers []placement.Broker
	for b := range img.Brokers() {
		cordoned := len(b.LogDirs) > 0 && !slices.ContainsFunc(b.LogDirs, func(dir protocol.UUID) bool {
			return !slices.Contains(b.CordonedLogDirs, dir)
		})
		if cordoned {
			continue
		}
		p := placement.Broker{ID: b.ID, Fenced: b.Fenced || b.InControlledShutdown}
		if b.Rack != nil {
			p.Rack = *b.Rack
		}
		brokers = append(brokers, p)
	}
	return brokers
}

func manualAssignment(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic) ([][]protocol.NodeID, error) {
	if topic.ReplicationFactor != -1 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest,
			"A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if topic.NumPartitions != -1 {
		return nil, protocol.Errorf(protocol.ErrInvalidRequest,
			"A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	assigned := make(map[int32][]protocol.NodeID, len(topic.ReplicaAssignment))
	factor := 0
	for _, a := range topic.ReplicaAssignment {
		if _, ok := assigned[a.Partition]; ok {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"Found multiple manual partition assignments for partition %d", a.Partition)
		}
		replicas := make([]protocol.NodeID, len(a.Replicas))
		for i, id := range a.Replicas {
			replicas[i] = protocol.NodeID(id)
		}
		if err := checkAssignment(img, replicas, factor); err != nil {
			return nil, err
		}
		if len(living(img, replicas)) == 0 {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", a.Partition)
		}
		factor = len(replicas)
		assigned[a.Partition] = replicas
	}
	ordered := make([][]protocol.NodeID, len(assigned))
	for i := range ordered {
		replicas, ok := assigned[int32(i)]
		if !ok {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"partitions should be a consecutive 0-based integer sequence")
		}
		ordered[i] = replicas
	}
	return ordered, nil
}

// checkAssignment checks one partition's replicas; factor is how many the
// partitions before it have, 0 for the first.
func checkAssignment(img *metadata.Image, replicas []protocol.NodeID, factor int) error {
	if len(replicas) == 0 {
		return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if _, ok := img.Broker(id); !ok {
			return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if factor > 0 && len(replicas) != factor {
		return protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), factor)
	}
	return nil
}
