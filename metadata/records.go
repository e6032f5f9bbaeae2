package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Records yields the records that rebuild the image from Empty, in the order of
// Kafka's snapshots: features (metadata.version first), brokers, controllers,
// topics with their partitions, configs, client quotas, producer ids, ACLs, SCRAM
// credentials, delegation tokens.
func (img *Image) Records() iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		_ = img.featureRecords(yield) && img.nodeRecords(yield) && img.topicRecords(yield) &&
			img.configRecords(yield) && img.quotaRecords(yield) && img.producerIDRecord(yield) &&
			img.aclRecords(yield) && img.scramRecords(yield) && img.tokenRecords(yield)
	}
}

func (img *Image) featureRecords(yield func(record.Record) bool) bool {
	if level, ok := img.Feature(feature.MetadataVersion); ok {
		if !yield(&record.FeatureLevel{Name: feature.MetadataVersion, Level: level}) {
			return false
		}
	}
	for name, level := range img.Features() {
		if name != feature.MetadataVersion && !yield(&record.FeatureLevel{Name: name, Level: level}) {
			return false
		}
	}
	return true
}

func (img *Image) nodeRecords(yield func(record.Record) bool) bool {
	for b := range img.Brokers() {
		if !yield(b.Record()) {
			return false
		}
	}
	for c := range img.Controllers() {
		if !yield(&record.RegisterController{
			ControllerID:  c.ID,
			IncarnationID: c.IncarnationID,
			Endpoints:     c.Endpoints,
			Features:      c.Features,
		}) {
			return false
		}
	}
	return true
}

// Record returns the record that holds the whole of b.
func (b *Broker) Record() *record.RegisterBroker {
	return &record.RegisterBroker{
		BrokerID:             b.ID,
		IncarnationID:        b.IncarnationID,
		BrokerEpoch:          b.Epoch,
		Endpoints:            b.Endpoints,
		Features:             b.Features,
		Rack:                 b.Rack,
		Fenced:               b.Fenced,
		InControlledShutdown: b.InControlledShutdown,
		LogDirs:              b.LogDirs,
		CordonedLogDirs:      b.CordonedLogDirs,
	}
}

func (img *Image) topicRecords(yield func(record.Record) bool) bool {
	for t := range img.Topics() {
		if !yield(&record.Topic{Name: t.Name, TopicID: t.ID}) {
			return false
		}
		for p := range t.Partitions() {
			if !yield(p.Record(t.ID)) {
				return false
			}
		}
	}
	return true
}

// Record returns the record that holds the whole of p. Of eligible replicas that
// are none it says nothing, as Kafka's.
func (p *Partition) Record(topic protocol.UUID) *record.Partition {
	return &record.Partition{
		PartitionID:      p.ID,
		TopicID:          topic,
		Replicas:         p.Replicas,
		ISR:              p.ISR,
		RemovingReplicas: p.RemovingReplicas,
		AddingReplicas:   p.AddingReplicas,
		Leader:           p.Leader,
		LeaderRecovery:   p.LeaderRecovery,
		LeaderEpoch:      p.LeaderEpoch,
		PartitionEpoch:   p.PartitionEpoch,
		Directories:      p.Directories,
		ELR:              nilIfEmpty(p.ELR),
		LastKnownELR:     nilIfEmpty(p.LastKnownELR),
	}
}

func nilIfEmpty(ids []protocol.NodeID) []protocol.NodeID {
	if len(ids) == 0 {
		return nil
	}
	return ids
}

func (img *Image) configRecords(yield func(record.Record) bool) bool {
	for res := range img.ConfigResources() {
		for key, value := range img.Configs(res) {
			if !yield(&record.Config{ResourceType: res.Type, ResourceName: res.Name, Name: key, Value: &value}) {
				return false
			}
		}
	}
	return true
}

func (img *Image) producerIDRecord(yield func(record.Record) bool) bool {
	if img.nextProducerID == 0 {
		return true
	}
	// Whom the last block went to is no part of the state (ProducerIdsImage.java).
	return yield(&record.ProducerIDs{BrokerID: protocol.NoNode, BrokerEpoch: -1, NextProducerID: img.nextProducerID})
}

// Digest is a hash over everything that Records says, in hexadecimal. Two nodes
// at the same offset have the same.
func (img *Image) Digest() string {
	hash := sha256.New()
	var frame []byte
	for rec := range img.Records() {
		frame = record.AppendFrame(frame[:0], rec, feature.Latest)
		hash.Write(frame) // a hash never returns an error
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
