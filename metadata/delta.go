package metadata

import (
	"fmt"
	"iter"

	"github.com/tidwall/btree"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Delta is an image in the making. It belongs to one goroutine.
type Delta struct {
	base *Image
	next Image // its tables are stale until Apply; see the trees

	features    *btree.BTreeG[featureEntry]
	brokers     *btree.BTreeG[*Broker]
	controllers *btree.BTreeG[*Controller]
	byName      *btree.BTreeG[nameEntry]
	byID        *btree.BTreeG[idEntry]
	configs     *btree.BTreeG[configEntry]
	placements  *btree.BTreeG[placement]
	quotas      *btree.BTreeG[quotaEntry]
	acls        *btree.BTreeG[*record.AccessControlEntry]
	scram       *btree.BTreeG[*record.UserScramCredential]
	tokens      *btree.BTreeG[*record.DelegationToken]

	edits map[protocol.UUID]*topicEdit // topics that may still be written in place

	// What differs from base, in the order of the first change, with no entry
	// twice.
	changedTopics   changes[protocol.UUID]
	changedBrokers  changes[protocol.NodeID]
	changedConfigs  changes[Resource]
	changedFeatures bool
}

// changes is a set that keeps the order of arrival.
type changes[K comparable] struct {
	keys []K
	seen map[K]struct{}
}

func (c *changes[K]) add(key K) {
	if _, ok := c.seen[key]; ok {
		return
	}
	if c.seen == nil {
		c.seen = make(map[K]struct{})
	}
	c.seen[key] = struct{}{}
	c.keys = append(c.keys, key)
}

// NewDelta returns a delta of nothing over img.
func NewDelta(img *Image) *Delta {
	return &Delta{
		base:        img,
		next:        *img,
		features:    img.features.edit(),
		brokers:     img.brokers.edit(),
		controllers: img.controllers.edit(),
		byName:      img.byName.edit(),
		byID:        img.byID.edit(),
		configs:     img.configs.edit(),
		placements:  img.placements.edit(),
		quotas:      img.quotas.edit(),
		acls:        img.acls.edit(),
		scram:       img.scram.edit(),
		tokens:      img.tokens.edit(),
		edits:       make(map[protocol.UUID]*topicEdit),
	}
}

// Whole returns the delta from the empty image to img, without a replay.
func Whole(img *Image) *Delta {
	d := NewDelta(img)
	d.base = Empty()
	for t := range img.Topics() {
		d.changedTopics.add(t.ID)
	}
	for b := range img.Brokers() {
		d.changedBrokers.add(b.ID)
	}
	for res := range img.ConfigResources() {
		d.changedConfigs.add(res)
	}
	for range img.Features() {
		d.changedFeatures = true
	}
	return d
}

// Base is the image that the delta started from.
func (d *Delta) Base() *Image { return d.base }

// Replay takes one record in. An error names the object that the record does
// not fit; the delta is then of no further use.
func (d *Delta) Replay(rec record.Record) error {
	switch r := rec.(type) {
	case *record.RegisterBroker:
		d.registerBroker(r)
		return nil
	case *record.UnregisterBroker:
		return d.unregisterBroker(r)
	case *record.BrokerRegistrationChange:
		return d.changeBroker(r)
	case *record.FenceBroker:
		return d.fence(r.BrokerID, r.Epoch, true)
	case *record.UnfenceBroker:
		return d.fence(r.BrokerID, r.Epoch, false)
	case *record.RegisterController:
		d.registerController(r)
		return nil
	case *record.UnregisterController:
		return d.unregisterController(r)
	case *record.Topic:
		return d.createTopic(r)
	case *record.RemoveTopic:
		return d.removeTopic(r)
	case *record.Partition:
		return d.putPartition(r)
	case *record.PartitionChange:
		return d.changePartition(r)
	case *record.ClearELR:
		return d.clearELR(r)
	case *record.Config:
		d.setConfig(r)
		return nil
	case *record.FeatureLevel:
		d.setFeature(r)
		return nil
	case *record.ProducerIDs:
		d.next.nextProducerID = r.NextProducerID
		return nil
	case *record.ClientQuota:
		d.setQuota(r)
		return nil
	case *record.AccessControlEntry:
		d.acls.Set(withoutCause(r))
		return nil
	case *record.RemoveAccessControlEntry:
		return d.removeACL(r)
	case *record.UserScramCredential:
		d.scram.Set(withoutCause(r))
		return nil
	case *record.RemoveUserScramCredential:
		d.removeScram(r)
		return nil
	case *record.DelegationToken:
		d.tokens.Set(r)
		return nil
	case *record.RemoveDelegationToken:
		d.removeToken(r)
		return nil
	case *record.ZKMigrationState:
		return nil // logs that began under ZooKeeper hold some; that is over
	case *record.NoOp, *record.BeginTransaction, *record.EndTransaction, *record.AbortTransaction:
		return nil // they move the log, not the image
	}
	return fmt.Errorf("record %T (id %d) is none that an image can hold", rec, rec.ID())
}

// Apply returns the image with everything replayed so far, as of the given last
// record. The delta may be replayed into further.
func (d *Delta) Apply(offset int64, epoch protocol.ControllerEpoch, timestampMs int64) *Image {
	img := d.next
	img.offset, img.epoch, img.timestampMs = offset, epoch, timestampMs
	if d.changedFeatures {
		img.featuresOffset = offset
	}
	img.features = freeze(d.features)
	img.brokers = freeze(d.brokers)
	img.controllers = freeze(d.controllers)
	img.byName = freeze(d.byName)
	img.byID = freeze(d.byID)
	img.configs = freeze(d.configs)
	img.placements = freeze(d.placements)
	img.quotas = freeze(d.quotas)
	img.acls = freeze(d.acls)
	img.scram = freeze(d.scram)
	img.tokens = freeze(d.tokens)
	clear(d.edits) // the image holds those topics now
	return &img
}

// TopicChange is a topic that differs between the delta's base and now.
type TopicChange struct {
	ID   protocol.UUID
	Name string
	Old  *Topic // nil where the topic was created
	New  *Topic // nil where it was deleted
}

// Partitions yields (before, after) of each partition that differs; nil stands
// for absent.
func (c TopicChange) Partitions() iter.Seq2[*Partition, *Partition] {
	return changedPartitions(c.Old, c.New)
}

// ChangedTopics yields the topics that were created, deleted or changed, in the
// order of their first change. A topic that came and went again is left out.
func (d *Delta) ChangedTopics() iter.Seq[TopicChange] {
	return func(yield func(TopicChange) bool) {
		for _, id := range d.changedTopics.keys {
			before, _ := d.base.TopicByID(id)
			e, _ := d.byID.Get(idEntry{id: id})
			change := TopicChange{ID: id, Old: before, New: e.topic}
			switch {
			case change.New != nil:
				change.Name = change.New.Name
			case change.Old != nil:
				change.Name = change.Old.Name
			default:
				continue
			}
			if !yield(change) {
				return
			}
		}
	}
}

// ChangedBrokers yields (before, after) of each registration that differs; nil
// stands for absent.
func (d *Delta) ChangedBrokers() iter.Seq2[*Broker, *Broker] {
	return func(yield func(before, after *Broker) bool) {
		for _, id := range d.changedBrokers.keys {
			before, _ := d.base.Broker(id)
			after, _ := d.brokers.Get(&Broker{ID: id})
			if before != after && !yield(before, after) {
				return
			}
		}
	}
}

// ChangedConfigs yields the resources whose configs were touched.
func (d *Delta) ChangedConfigs() iter.Seq[Resource] {
	return func(yield func(Resource) bool) {
		for _, res := range d.changedConfigs.keys {
			if !yield(res) {
				return
			}
		}
	}
}

// FeaturesChanged tells whether a feature's level was recorded.
func (d *Delta) FeaturesChanged() bool { return d.changedFeatures }
