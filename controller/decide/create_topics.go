package decide

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
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
	inherited := inheritedConfigs(img, env)
	var records []record.Record
	var reserved []kmsg.CreateTopicsResponseTopic
	for _, topic := range once {
		if topic.Topic == protocol.MetadataTopic {
			reserved = append(reserved, refusedTopic(topic.Topic, protocol.Errorf(protocol.ErrInvalidRequest,
				"Creation of internal topic %s is prohibited.", protocol.MetadataTopic)))
			continue
		}
		created, answer, err := createTopic(img, topic, inherited, env)
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
func createTopic(img *metadata.Image, topic *kmsg.CreateTopicsRequestTopic, inherited []kmsg.CreateTopicsResponseTopicConfig, env Env) ([]record.Record, kmsg.CreateTopicsResponseTopic, error) {
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
	return records, createdTopic(topic.Topic, id, replicas, configs, inherited), nil
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
	}
	return append(records, clearELR(img, records)...)
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
	case !ok || len(b.LogDirs) == 0 || !img.Level().HasDirectories():
		return protocol.MigratingDir
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	default:
		return protocol.UnassignedDir
	}
}

// createdTopic is the answer for a topic that gets created: what it has, with
// every effective config and its source (KIP-525).
func createdTopic(name string, id protocol.UUID, replicas [][]protocol.NodeID, settings []setting, inherited []kmsg.CreateTopicsResponseTopicConfig) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.TopicID = name, id
	t.NumPartitions, t.ReplicationFactor = int32(len(replicas)), int16(len(replicas[0]))
	t.Configs = inherited
	if len(settings) > 0 {
		t.Configs = slices.Clone(inherited)
	}
	for _, s := range settings {
		if i := slices.IndexFunc(t.Configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return c.Name == s.name }); i >= 0 {
			t.Configs[i].Value, t.Configs[i].Source = &s.value, int8(config.FromTopic)
		}
	}
	return t
}

// inheritedConfigs are the configs of a topic that sets none, by name. Topics of
// one answer share them.
func inheritedConfigs(img *metadata.Image, env Env) []kmsg.CreateTopicsResponseTopicConfig {
	layers := topicLayers(img, env, nil)
	keys := config.TopicKeys()
	configs := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(keys))
	for _, key := range keys {
		set := key.Resolve(layers)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.IsSensitive = key.Name, int8(set.Source), key.Sensitive()
		if !set.Null && !c.IsSensitive {
			c.Value = &set.Value
		}
		configs = append(configs, c)
	}
	return configs
}
