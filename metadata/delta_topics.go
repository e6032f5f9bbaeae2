package metadata

import (
	"fmt"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

func (d *Delta) createTopic(r *record.Topic) error {
	if _, ok := d.byName.Get(nameEntry{name: r.Name}); ok {
		return fmt.Errorf("topic %q exists already", r.Name)
	}
	if e, ok := d.byID.Get(idEntry{id: r.TopicID}); ok {
		return fmt.Errorf("topic id %s of %q belongs to topic %q", r.TopicID, r.Name, e.topic.Name)
	}
	d.putTopic(&topicEdit{topic: &Topic{Name: r.Name, ID: r.TopicID}})
	return nil
}

func (d *Delta) putTopic(e *topicEdit) {
	t := e.topic
	d.edits[t.ID] = e
	d.byName.Set(nameEntry{name: t.Name, topic: t})
	d.byID.Set(idEntry{id: t.ID, topic: t})
	d.changedTopics.add(t.ID)
}

// topic returns the topic for a change.
func (d *Delta) topic(id protocol.UUID) (*topicEdit, error) {
	if e, ok := d.edits[id]; ok {
		return e, nil
	}
	entry, ok := d.byID.Get(idEntry{id: id})
	if !ok {
		return nil, fmt.Errorf("topic id %s is unknown", id)
	}
	e := editTopic(entry.topic)
	d.putTopic(e)
	return e, nil
}

func (d *Delta) removeTopic(r *record.RemoveTopic) error {
	entry, ok := d.byID.Get(idEntry{id: r.TopicID})
	if !ok {
		return fmt.Errorf("topic id %s is unknown", r.TopicID)
	}
	t := entry.topic
	for p := range t.Partitions() {
		d.place(t.ID, p.ID, p.Replicas, nil)
	}
	delete(d.edits, t.ID)
	d.byID.Delete(idEntry{id: t.ID})
	d.byName.Delete(nameEntry{name: t.Name})
	d.changedTopics.add(t.ID)
	res := Resource{Type: ResourceTopic, Name: t.Name}
	if _, ok := d.configs.Delete(configEntry{resource: res}); ok {
		d.changedConfigs.add(res)
	}
	return nil
}

// place moves a partition's entries in the table of placements.
func (d *Delta) place(topic protocol.UUID, partition int32, from, to []protocol.NodeID) {
	for _, broker := range from {
		d.placements.Delete(placement{broker, topic, partition})
	}
	for _, broker := range to {
		d.placements.Set(placement{broker, topic, partition})
	}
}

func (d *Delta) putPartition(r *record.Partition) error {
	e, err := d.topic(r.TopicID)
	if err != nil {
		return fmt.Errorf("partition %d: %w", r.PartitionID, err)
	}
	var from []protocol.NodeID
	if old, ok := e.topic.Partition(r.PartitionID); ok {
		from = old.Replicas
	} else if int(r.PartitionID) != e.topic.count {
		return fmt.Errorf("topic %q has %d partitions, the record is of partition %d",
			e.topic.Name, e.topic.count, r.PartitionID)
	}
	dirs := r.Directories
	if len(dirs) == 0 {
		dirs = make([]protocol.UUID, len(r.Replicas)) // of before KIP-858: migrating
	}
	e.put(&Partition{
		ID:               r.PartitionID,
		Replicas:         r.Replicas,
		Directories:      dirs,
		ISR:              r.ISR,
		ELR:              r.ELR,
		LastKnownELR:     r.LastKnownELR,
		RemovingReplicas: r.RemovingReplicas,
		AddingReplicas:   r.AddingReplicas,
		Leader:           r.Leader,
		LeaderRecovery:   r.LeaderRecovery,
		LeaderEpoch:      r.LeaderEpoch,
		PartitionEpoch:   r.PartitionEpoch,
	})
	d.place(r.TopicID, r.PartitionID, from, r.Replicas)
	return nil
}

// changePartition replays a change.
func (d *Delta) changePartition(r *record.PartitionChange) error {
	e, err := d.topic(r.TopicID)
	if err != nil {
		return fmt.Errorf("change of partition %d: %w", r.PartitionID, err)
	}
	old, ok := e.topic.Partition(r.PartitionID)
	if !ok {
		return fmt.Errorf("topic %q has no partition %d to change", e.topic.Name, r.PartitionID)
	}
	if r.Replicas != nil {
		d.place(r.TopicID, r.PartitionID, old.Replicas, r.Replicas)
	}
	e.put(old.Changed(r))
	return nil
}

// clearELR empties the eligible replicas: to each partition that has some this is
// a change like any other, so its epoch goes up (as in Kafka's TopicDelta).
func (d *Delta) clearELR(r *record.ClearELR) error {
	if r.TopicName != "" {
		entry, ok := d.byName.Get(nameEntry{name: r.TopicName})
		if !ok {
			return fmt.Errorf("topic %q is unknown", r.TopicName)
		}
		return d.clearTopicELR(entry.topic)
	}
	// The scan must not see the trees change under it: collect first.
	var topics []*Topic
	d.byName.Scan(func(e nameEntry) bool { topics = append(topics, e.topic); return true })
	for _, t := range topics {
		if err := d.clearTopicELR(t); err != nil {
			return err
		}
	}
	return nil
}

func (d *Delta) clearTopicELR(t *Topic) error {
	for p := range t.Partitions() {
		if len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
			continue
		}
		change := record.NewPartitionChange(t.ID, p.ID)
		change.ELR, change.LastKnownELR = []protocol.NodeID{}, []protocol.NodeID{}
		if err := d.changePartition(change); err != nil {
			return err
		}
	}
	return nil
}
