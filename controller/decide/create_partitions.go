package decide

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/controller/placement"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// CreatePartitions decides the growth of topics, each for itself. A topic that
// is named twice does not grow at all. The records of the request are atomic.
func CreatePartitions(img *metadata.Image, req *kmsg.CreatePartitionsRequest, env Env) ([]record.Record, *kmsg.CreatePartitionsResponse) {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	count := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	excessive := tooManyAdditions(img, req.Topics, count)
	var records []record.Record
	for i := range req.Topics {
		topic := &req.Topics[i]
		var err error
		switch n := count[topic.Topic]; {
		case n == 0: // answered above
			continue
		case n > 1:
			err = protocol.Errorf(protocol.ErrInvalidRequest, "Duplicate topic name.")
			count[topic.Topic] = 0
		case excessive:
			err = protocol.Errorf(protocol.ErrPolicyViolation, "Excessively large number of additional partitions per request.")
		default:
			var added []record.Record
			added, err = grow(img, topic, env)
			records = append(records, added...)
		}
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topic.Topic, int16(protocol.CodeOf(err)), messageOf(err)
		resp.Topics = append(resp.Topics, t)
	}
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

// tooManyAdditions bounds what a request may cost, as for creations.
func tooManyAdditions(img *metadata.Image, topics []kmsg.CreatePartitionsRequestTopic, count map[string]int) bool {
	total := 0
	for i := range topics {
		t, ok := img.Topic(topics[i].Topic)
		if ok && count[t.Name] == 1 {
			total += max(0, int(topics[i].Count)-t.NumPartitions())
		}
	}
	return total > maxPartitionsPerRequest
}

// grow decides the partitions that one topic gets in addition.
func grow(img *metadata.Image, req *kmsg.CreatePartitionsRequestTopic, env Env) ([]record.Record, error) {
	t, ok := img.Topic(req.Topic)
	if !ok {
		return nil, protocol.ErrUnknownTopicOrPartition
	}
	have := t.NumPartitions()
	additional := int(req.Count) - have
	switch {
	case additional == 0:
		return nil, protocol.Errorf(protocol.ErrInvalidPartitions, "Topic already has %d partition(s).", have)
	case additional < 0:
		return nil, protocol.Errorf(protocol.ErrInvalidPartitions,
			"The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, req.Count)
	}
	replicas, err := additionalReplicas(img, t, req.Assignment, additional, env)
	if err != nil {
		return nil, err
	}
	records := make([]record.Record, additional)
	for i := range records {
		records[i] = newPartition(img, t.ID, int32(have+i), replicas[i])
	}
	return records, nil
}

// additionalReplicas are the replicas of the partitions to come, as many for
// each as the topic's first partition has. Null assignments ask for placement;
// an empty list is one that is too short.
func additionalReplicas(img *metadata.Image, t *metadata.Topic, assigned []kmsg.CreatePartitionsRequestTopicAssignment, additional int, env Env) ([][]protocol.NodeID, error) {
	first, ok := t.Partition(0)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrUnknownServerError, "Invalid state: topic %s appears to have no partitions.", t.Name)
	}
	factor := len(first.Replicas)
	if assigned == nil {
		placed, err := placement.Place(placeable(img), additional, factor, env.Rand)
		if err != nil {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor, "%s", err)
		}
		for _, replicas := range placed {
			if len(living(img, replicas)) == 0 {
				return nil, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
					"Unable to replicate the partition %d time(s): All brokers are currently fenced or in controlled shutdown.", factor)
			}
		}
		return placed, nil
	}
	if len(assigned) != additional {
		return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", additional, len(assigned))
	}
	lists := make([][]protocol.NodeID, len(assigned))
	for i, a := range assigned {
		for _, id := range a.Replicas {
			lists[i] = append(lists[i], protocol.NodeID(id))
		}
		if err := checkAssignment(img, lists[i], factor); err != nil {
			return nil, err
		}
		if len(living(img, lists[i])) == 0 {
			return nil, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
				"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", t.NumPartitions()+i)
		}
	}
	return lists, nil
}
