package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Resource types of configs (ConfigResource.java).
const (
	ResourceTopic         int8 = 2
	ResourceBroker        int8 = 4
	ResourceBrokerLogger  int8 = 8
	ResourceClientMetrics int8 = 16
	ResourceGroup         int8 = 32
)

// Broker is one registration, as records made it. It is never modified once an
// image holds it.
type Broker struct {
	ID                   protocol.NodeID
	IncarnationID        protocol.UUID
	Epoch                protocol.BrokerEpoch
	Endpoints            []record.Endpoint
	Features             []record.FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []protocol.UUID
	CordonedLogDirs      []protocol.UUID
}

// Controller is one controller's registration.
type Controller struct {
	ID            protocol.NodeID
	IncarnationID protocol.UUID
	Endpoints     []record.Endpoint
	Features      []record.FeatureRange
}

// Partition is the state of one partition. It is never modified once an image
// holds it.
type Partition struct {
	ID               int32
	Replicas         []protocol.NodeID
	Directories      []protocol.UUID // as long as Replicas
	ISR              []protocol.NodeID
	ELR              []protocol.NodeID
	LastKnownELR     []protocol.NodeID
	RemovingReplicas []protocol.NodeID
	AddingReplicas   []protocol.NodeID
	Leader           protocol.NodeID // NoNode where none can lead
	LeaderRecovery   int8            // 0 recovered, 1 recovering (KIP-704)
	LeaderEpoch      protocol.LeaderEpoch
	PartitionEpoch   protocol.PartitionEpoch
}

// Resource names what a config belongs to; the name "" of a broker is the
// cluster-wide default.
type Resource struct {
	Type int8
	Name string
}

func (r Resource) compare(o Resource) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), strings.Compare(r.Name, o.Name))
}

// Image is the cluster as the metadata log says it is up to Offset. It is never
// modified once it is published; all of its methods may be called by anybody.
type Image struct {
	offset         int64
	epoch          protocol.ControllerEpoch
	timestampMs    int64
	featuresOffset int64
	nextProducerID int64

	features    table[featureEntry]
	brokers     table[*Broker]
	controllers table[*Controller]
	byName      table[nameEntry]
	byID        table[idEntry]
	configs     table[configEntry]
	placements  table[placement]
	quotas      table[quotaEntry]
	acls        table[*record.AccessControlEntry]
	scram       table[*record.UserScramCredential]
	tokens      table[*record.DelegationToken]
}

type featureEntry struct {
	name  string
	level int16
}

type nameEntry struct {
	name  string
	topic *Topic
}

type idEntry struct {
	id    protocol.UUID
	topic *Topic
}

// configEntry holds the configs of one resource, never empty, never modified.
type configEntry struct {
	resource Resource
	values   []configValue // sorted by key
}

type configValue struct{ key, value string }

// placement says that a broker holds a replica of a partition.
type placement struct {
	broker    protocol.NodeID
	topic     protocol.UUID
	partition int32
}

func (p placement) less(o placement) bool {
	return cmp.Or(
		cmp.Compare(p.broker, o.broker),
		bytes.Compare(p.topic[:], o.topic[:]),
		cmp.Compare(p.partition, o.partition),
	) < 0
}

// Empty returns the image of an empty log: its offset is −1.
func Empty() *Image {
	return &Image{
		offset:         -1,
		featuresOffset: -1,
		timestampMs:    -1,
		features:       newTable(func(a, b featureEntry) bool { return a.name < b.name }),
		brokers:        newTable(func(a, b *Broker) bool { return a.ID < b.ID }),
		controllers:    newTable(func(a, b *Controller) bool { return a.ID < b.ID }),
		byName:         newTable(func(a, b nameEntry) bool { return a.name < b.name }),
		byID:           newTable(func(a, b idEntry) bool { return bytes.Compare(a.id[:], b.id[:]) < 0 }),
		configs:        newTable(func(a, b configEntry) bool { return a.resource.compare(b.resource) < 0 }),
		placements:     newTable(placement.less),
		quotas:         newTable(func(a, b quotaEntry) bool { return a.entity.compare(b.entity) < 0 }),
		acls:           newTable(aclLess),
		scram:          newTable(scramLess),
		tokens:         newTable(tokenLess),
	}
}

// Offset is the offset of the last record that the image contains; −1 where it
// contains none.
func (img *Image) Offset() int64 { return img.offset }

// Epoch is the controller epoch of the last record.
func (img *Image) Epoch() protocol.ControllerEpoch { return img.epoch }

// TimestampMs is the timestamp of the last record's batch, in ms since 1970; −1
// where there is none.
func (img *Image) TimestampMs() int64 { return img.timestampMs }

// Topic returns the topic of that name.
func (img *Image) Topic(name string) (*Topic, bool) {
	e, ok := img.byName.get(nameEntry{name: name})
	return e.topic, ok
}

// TopicByID returns the topic of that id.
func (img *Image) TopicByID(id protocol.UUID) (*Topic, bool) {
	e, ok := img.byID.get(idEntry{id: id})
	return e.topic, ok
}

// Partition returns a partition by its topic's name.
func (img *Image) Partition(tp protocol.TopicPartition) (*Partition, bool) {
	t, ok := img.Topic(tp.Topic)
	if !ok {
		return nil, false
	}
	return t.Partition(tp.Partition)
}

// NumTopics is the number of topics.
func (img *Image) NumTopics() int { return img.byName.tree.Len() }

// Topics yields all topics by name.
func (img *Image) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		img.byName.tree.Scan(func(e nameEntry) bool { return yield(e.topic) })
	}
}

// TopicsFrom yields the topics whose name is not less than name, by name.
func (img *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		img.byName.tree.Ascend(nameEntry{name: name}, func(e nameEntry) bool { return yield(e.topic) })
	}
}

// Broker returns a broker's registration, fenced or not.
func (img *Image) Broker(id protocol.NodeID) (*Broker, bool) {
	return img.brokers.get(&Broker{ID: id})
}

// Brokers yields all registrations by id.
func (img *Image) Brokers() iter.Seq[*Broker] {
	return func(yield func(*Broker) bool) { img.brokers.tree.Scan(yield) }
}

// Controller returns a controller's registration.
func (img *Image) Controller(id protocol.NodeID) (*Controller, bool) {
	return img.controllers.get(&Controller{ID: id})
}

// Controllers yields all controllers by id.
func (img *Image) Controllers() iter.Seq[*Controller] {
	return func(yield func(*Controller) bool) { img.controllers.tree.Scan(yield) }
}

// PartitionsOn yields the partitions that have a replica on broker, by topic id
// and partition id.
func (img *Image) PartitionsOn(broker protocol.NodeID) iter.Seq2[*Topic, *Partition] {
	return func(yield func(*Topic, *Partition) bool) {
		var t *Topic
		img.placements.tree.Ascend(placement{broker: broker}, func(at placement) bool {
			if at.broker != broker {
				return false
			}
			if t == nil || t.ID != at.topic {
				t, _ = img.TopicByID(at.topic)
			}
			p, _ := t.Partition(at.partition)
			return yield(t, p)
		})
	}
}

// Config returns the value that records set for a key of a resource.
func (img *Image) Config(res Resource, key string) (string, bool) {
	e, _ := img.configs.get(configEntry{resource: res})
	i, ok := findConfig(e.values, key)
	if !ok {
		return "", false
	}
	return e.values[i].value, true
}

// Configs yields the keys and values that records set for a resource, by key.
func (img *Image) Configs(res Resource) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		e, _ := img.configs.get(configEntry{resource: res})
		for _, c := range e.values {
			if !yield(c.key, c.value) {
				return
			}
		}
	}
}

// ConfigResources yields the resources that have configs, by type and name.
func (img *Image) ConfigResources() iter.Seq[Resource] {
	return func(yield func(Resource) bool) {
		img.configs.tree.Scan(func(e configEntry) bool { return yield(e.resource) })
	}
}

// Feature returns the finalized level of a feature.
func (img *Image) Feature(name string) (int16, bool) {
	e, ok := img.features.get(featureEntry{name: name})
	return e.level, ok
}

// Level is the finalized level of metadata.version: what may be written. A log
// that does not begin with it yet may begin with the latest.
func (img *Image) Level() feature.Level {
	level, ok := img.Feature(feature.MetadataVersion)
	if !ok {
		return feature.Latest
	}
	return feature.Level(level)
}

// Features yields the finalized features by name.
func (img *Image) Features() iter.Seq2[string, int16] {
	return func(yield func(string, int16) bool) {
		img.features.tree.Scan(func(e featureEntry) bool { return yield(e.name, e.level) })
	}
}

// FinalizedFeaturesEpoch is the offset of the last change of a feature, −1
// where there was none.
func (img *Image) FinalizedFeaturesEpoch() int64 { return img.featuresOffset }

// NextProducerID is the first producer id that no broker has been given.
func (img *Image) NextProducerID() int64 { return img.nextProducerID }

// findConfig returns the place of key in values, or where it would stand.
func findConfig(values []configValue, key string) (int, bool) {
	return slices.BinarySearchFunc(values, key, func(c configValue, key string) int {
		return strings.Compare(c.key, key)
	})
}
