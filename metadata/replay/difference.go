package replay

import (
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// difference returns a delta that leads from one image to what another holds,
// so that subscribers learn from a snapshot what they would have learnt from
// the log. It compares the records that rebuild the two.
func difference(from, to *metadata.Image) (*metadata.Delta, error) {
	seed := maphash.MakeSeed()
	var frame []byte
	hash := func(rec record.Record) uint64 {
		frame = record.AppendFrame(frame[:0], rec, feature.Latest)
		return maphash.Bytes(seed, frame)
	}
	old := make(map[identity]uint64)
	for rec := range from.Records() {
		old[identify(rec)] = hash(rec)
	}
	kept := make(map[identity]bool, len(old))
	for rec := range to.Records() {
		kept[identify(rec)] = true
	}

	// What is gone goes first: its name may be taken again.
	delta := metadata.NewDelta(from)
	for rec := range from.Records() {
		if kept[identify(rec)] {
			continue
		}
		gone := removal(rec)
		if gone == nil {
			continue
		}
		if err := delta.Replay(gone); err != nil {
			return nil, err
		}
		if t, ok := rec.(*record.Topic); ok {
			for key := range from.Configs(metadata.Resource{Type: metadata.ResourceTopic, Name: t.Name}) {
				delete(old, identity{kind: configKind, number: int64(metadata.ResourceTopic), name: t.Name, key: key})
			}
		}
	}
	for rec := range to.Records() {
		if before, ok := old[identify(rec)]; ok && before == hash(rec) {
			continue
		}
		if err := delta.Replay(rec); err != nil {
			return nil, err
		}
	}
	return delta, nil
}

// configKind is the id of config records.
var configKind = (&record.Config{}).ID()

// identity is what a record of an image is about.
type identity struct {
	kind   int16
	id     protocol.UUID
	number int64
	name   string
	key    string
}

func identify(rec record.Record) identity {
	key := identity{kind: rec.ID()}
	switch rec := rec.(type) {
	case *record.FeatureLevel:
		key.name = rec.Name
	case *record.RegisterBroker:
		key.number = int64(rec.BrokerID)
	case *record.RegisterController:
		key.number = int64(rec.ControllerID)
	case *record.Topic:
		key.id = rec.TopicID
	case *record.Partition:
		key.id, key.number = rec.TopicID, int64(rec.PartitionID)
	case *record.Config:
		key.number, key.name, key.key = int64(rec.ResourceType), rec.ResourceName, rec.Name
	case *record.ProducerIDs:
	case *record.ClientQuota:
		for _, part := range rec.Entity {
			key.name += strconv.Quote(part.Type)
			if part.Name != nil {
				key.name += "=" + strconv.Quote(*part.Name)
			}
		}
		key.key = rec.Key
	case *record.AccessControlEntry:
		key.id = rec.ACLID
	case *record.UserScramCredential:
		key.number, key.name = int64(rec.Mechanism), rec.Name
	case *record.DelegationToken:
		key.name = rec.TokenID
	default:
		panic(fmt.Sprintf("replay: an image yields a %s, which has no identity here", record.Name(rec)))
	}
	return key
}

// removal is the record that takes back what rec says; nil where another
// removal does, or nothing can.
func removal(rec record.Record) record.Record {
	switch rec := rec.(type) {
	case *record.FeatureLevel:
		return &record.FeatureLevel{Name: rec.Name}
	case *record.RegisterBroker:
		return &record.UnregisterBroker{BrokerID: rec.BrokerID, BrokerEpoch: rec.BrokerEpoch}
	case *record.RegisterController:
		return &record.UnregisterController{ControllerID: rec.ControllerID}
	case *record.Topic:
		return &record.RemoveTopic{TopicID: rec.TopicID}
	case *record.Config:
		return &record.Config{ResourceType: rec.ResourceType, ResourceName: rec.ResourceName, Name: rec.Name}
	case *record.ClientQuota:
		return &record.ClientQuota{Entity: rec.Entity, Key: rec.Key, Remove: true}
	case *record.AccessControlEntry:
		return &record.RemoveAccessControlEntry{ACLID: rec.ACLID}
	case *record.UserScramCredential:
		return &record.RemoveUserScramCredential{Name: rec.Name, Mechanism: rec.Mechanism}
	case *record.DelegationToken:
		return &record.RemoveDelegationToken{TokenID: rec.TokenID}
	}
	return nil // partitions go with their topic
}
