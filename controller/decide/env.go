package decide

import (
	"cmp"
	"strconv"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/controller/placement"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/protocol"
)

// minISRKey is a topic's and, for its default, a broker's config key.
const minISRKey = "min.insync.replicas"

// Env is what decisions need besides image and request.
type Env struct {
	// ClusterID is the cluster that brokers must say they belong to.
	ClusterID string
	// NodeID is the active controller's own id. Kafka takes what a new topic
	// inherits from the controller's broker configs; so do we.
	NodeID protocol.NodeID
	// KRaftVersion is the finalized kraft.version, which no image holds.
	KRaftVersion int16
	// KRaftUpgrade says why the voters of a static quorum can not move into the log;
	// nil: they can.
	KRaftUpgrade error
	// Static are the keys of this node's server.properties.
	Static config.Lookup
	// NumPartitions and ReplicationFactor are what −1 stands for in
	// CreateTopics: num.partitions, default.replication.factor.
	NumPartitions     int32
	ReplicationFactor int16
	// DeleteTopics is delete.topic.enable.
	DeleteTopics bool
	// Authorizer says that an authorizer is configured (authorizer.class.name): ACLs
	// are refused where nobody would look at them.
	Authorizer bool
	// MaxPartitions bounds the partitions that a decision changes which no request
	// names, a broker's say: others are heard before it goes on. 0 = 10,000.
	MaxPartitions int
	// NewID returns ids for topics and ACLs.
	NewID func() protocol.UUID
	// Rand places replicas.
	Rand placement.Rand
}

func (e *Env) maxPartitions() int { return cmp.Or(e.MaxPartitions, 10_000) }

// topicLayers says where a topic's configs come from.
func topicLayers(img *metadata.Image, env Env, topic config.Lookup) config.Layers {
	return config.Layers{
		Topic: topic,
		Broker: configsOf(img, metadata.Resource{
			Type: metadata.ResourceBroker, Name: strconv.Itoa(int(env.NodeID)),
		}),
		BrokerDefault: configsOf(img, metadata.Resource{Type: metadata.ResourceBroker}),
		Static:        env.Static,
	}
}

func configsOf(img *metadata.Image, res metadata.Resource) config.Lookup {
	return func(key string) (string, bool) { return img.Config(res, key) }
}

// topicValue is a topic's effective value of a key that has always one.
func topicValue(img *metadata.Image, env Env, topic, name string) config.Value {
	key, ok := config.TopicKey(name)
	if !ok {
		panic("decide: no topic key " + name)
	}
	set := key.Resolve(topicLayers(img, env, configsOf(img, metadata.Resource{
		Type: metadata.ResourceTopic, Name: topic,
	})))
	value, err := key.Parse(set.Value)
	if err != nil {
		// A value that was valid when it was written, or a broker's static one
		// that another version of the broker took: the default is what is left.
		value, _ = key.Parse(key.Default)
	}
	return value
}

// elrEnabled tells whether members that leave the ISR below its minimum are
// kept as eligible leaders (KIP-966).
func elrEnabled(img *metadata.Image) bool {
	level, _ := img.Feature(feature.ELR)
	return level >= 1
}

// active tells whether a broker may lead: registered, unfenced, not shutting
// down.
func active(img *metadata.Image, id protocol.NodeID) bool {
	b, ok := img.Broker(id)
	return ok && !b.Fenced && !b.InControlledShutdown
}

// checkBrokerEpoch refuses requests of an earlier life of a broker.
func checkBrokerEpoch(img *metadata.Image, id protocol.NodeID, epoch protocol.BrokerEpoch) (*metadata.Broker, error) {
	b, ok := img.Broker(id)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrStaleBrokerEpoch, "No broker registration found for broker id %d", id)
	}
	if b.Epoch != epoch {
		return nil, protocol.Errorf(protocol.ErrStaleBrokerEpoch,
			"Expected broker epoch %d, but got broker epoch %d", b.Epoch, epoch)
	}
	return b, nil
}
