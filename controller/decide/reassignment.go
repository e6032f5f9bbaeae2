package decide

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// A reassignment is nowhere but in its partition: it is under way while there
// are replicas to add or to remove, and the partition's replicas are both the
// old and the new ones. It ends in the very record that brings the last of the
// new ones into the ISR.

func reassigning(p *metadata.Partition) bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

// completeReassignment ends a reassignment whose replicas are all in the ISR:
// those that leave are out of it, and of the ISR. It tells whether it did.
func (t *target) completeReassignment() bool {
	if len(t.adding) == 0 && len(t.removing) == 0 {
		return false
	}
	isr, replicas := without(t.isr, t.removing...), without(t.replicas, t.removing...)
	if len(isr) == 0 || len(replicas) == 0 || !containsAll(isr, replicas) {
		return false
	}
	t.isr, t.replicas, t.adding, t.removing = isr, replicas, nil, nil
	return true
}

// AlterPartitionReassignments decides to move partitions, each for itself, and
// to cancel their moves, where no replicas are named. The records of the request
// are atomic.
func AlterPartitionReassignments(img *metadata.Image, req *kmsg.AlterPartitionAssignmentsRequest, env Env) ([]record.Record, *kmsg.AlterPartitionAssignmentsResponse) {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	var records []record.Record
	for i := range req.Topics {
		asked := &req.Topics[i]
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = asked.Topic
		for j := range asked.Partitions {
			partition := &asked.Partitions[j]
			rec, err := reassign(img, asked.Topic, partition, req.AllowReplicationFactorChange, env)
			if rec != nil {
				records = append(records, rec)
			}
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition.Partition, int16(protocol.CodeOf(err)), messageOf(err)
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return records, resp
}

// reassign decides about one partition. It returns a nil record where nothing
// is to change.
func reassign(img *metadata.Image, topic string, req *kmsg.AlterPartitionAssignmentsRequestTopicPartition, mayResize bool, env Env) (record.Record, error) {
	t, ok := img.Topic(topic)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrUnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	p, ok := t.Partition(req.Partition)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrUnknownTopicOrPartition, "Unable to find partition %s:%d.", topic, req.Partition)
	}
	r := rulesFor(img, env, t, func(id protocol.NodeID) bool { return active(img, id) })
	var want target
	var err error
	cause := "reassignment"
	if req.Replicas == nil {
		cause = "reassignment cancelled"
		want, err = cancelled(t, p, r)
	} else {
		// On its own, a move has no business with unclean elections.
		r.unclean = false
		want, err = moved(img, t, p, nodes(req.Replicas), mayResize)
	}
	if err != nil {
		return nil, err
	}
	if rec := partitionChange(t.ID, p, want, r); rec != nil {
		explain(rec, cause)
		return rec, nil
	}
	return nil, nil
}

// moved is a partition on its way to other replicas: the new ones, then those
// that leave once the new ones are in sync. Who came with an earlier target and
// is not of this one is among both, those who came and those who leave, so that
// the move can still be cancelled. (Kafka forgets the former where the new target
// brings others, and then can not.)
func moved(img *metadata.Image, t *metadata.Topic, p *metadata.Partition, replicas []protocol.NodeID, mayResize bool) (target, error) {
	if err := checkAssignment(img, replicas, 0); err != nil {
		return target{}, err
	}
	// As many as it is to have, where it is on its way.
	if size := len(without(p.Replicas, p.RemovingReplicas...)); !mayResize && len(replicas) != size {
		return target{}, protocol.Errorf(protocol.ErrInvalidReplicationFactor,
			"The replication factor is changed from %d to %d", size, len(replicas))
	}
	want := as(p)
	come := without(replicas, p.Replicas...)
	want.removing = slices.Sorted(slices.Values(without(p.Replicas, replicas...)))
	want.adding = slices.Sorted(slices.Values(slices.Concat(p.AddingReplicas, come)))
	want.replicas = slices.Concat(replicas, want.removing)
	want.dirs = make(map[protocol.NodeID]protocol.UUID, len(come))
	for _, id := range come {
		want.dirs[id] = defaultDir(img, id)
	}
	return want, nil
}

// cancelled is a partition back on the replicas that it had before its move.
func cancelled(t *metadata.Topic, p *metadata.Partition, r rules) (target, error) {
	if !reassigning(p) {
		return target{}, protocol.ErrNoReassignmentInProgress
	}
	want := as(p)
	want.replicas, want.isr = without(p.Replicas, p.AddingReplicas...), without(p.ISR, p.AddingReplicas...)
	want.adding, want.removing = nil, nil
	if heirs := heirs(p); len(heirs) > 0 && len(without(heirs, p.AddingReplicas...)) == 0 && !r.unclean {
		return target{}, protocol.Errorf(protocol.ErrInvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", t.Name, p.ID)
	}
	return want, nil
}

// heirs are the replicas that have all committed records, as far as anybody knows.
func heirs(p *metadata.Partition) []protocol.NodeID {
	for _, ids := range [][]protocol.NodeID{p.ISR, p.ELR, p.LastKnownELR} {
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// ListPartitionReassignments tells which partitions are on their way, of all
// topics or of those that are asked for. What does not exist is left out.
func ListPartitionReassignments(img *metadata.Image, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	list := func(t *metadata.Topic, wanted func(id int32) bool) {
		answer := kmsg.NewListPartitionReassignmentsResponseTopic()
		answer.Topic = t.Name
		for p := range t.Partitions() {
			if !reassigning(p) || !wanted(p.ID) {
				continue
			}
			entry := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			entry.Partition = p.ID
			entry.Replicas, entry.AddingReplicas, entry.RemovingReplicas = protocol.Int32s(p.Replicas), protocol.Int32s(p.AddingReplicas), protocol.Int32s(p.RemovingReplicas)
			answer.Partitions = append(answer.Partitions, entry)
		}
		if len(answer.Partitions) > 0 {
			resp.Topics = append(resp.Topics, answer)
		}
	}
	if req.Topics == nil {
		for t := range img.Topics() {
			list(t, func(int32) bool { return true })
		}
		return resp
	}
	for i := range req.Topics {
		if t, ok := img.Topic(req.Topics[i].Topic); ok {
			list(t, func(id int32) bool { return slices.Contains(req.Topics[i].Partitions, id) })
		}
	}
	return resp
}

func nodes(ids []int32) []protocol.NodeID {
	out := make([]protocol.NodeID, len(ids))
	for i, id := range ids {
		out[i] = protocol.NodeID(id)
	}
	return out
}
