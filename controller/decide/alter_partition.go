package decide

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// AlterPartition decides what the leaders on a broker propose as the ISRs of
// their partitions (KIP-497, KIP-841, KIP-903), each for itself. Whoever is
// outdated, by broker, leader or partition epoch, changes nothing.
func AlterPartition(img *metadata.Image, req *kmsg.AlterPartitionRequest, env Env) ([]record.Record, *kmsg.AlterPartitionResponse, error) {
	broker := protocol.NodeID(req.BrokerID)
	if _, err := checkBrokerEpoch(img, broker, protocol.BrokerEpoch(req.BrokerEpoch)); err != nil {
		return nil, nil, err
	}
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool { return active(img, id) }}
	resp := kmsg.NewPtrAlterPartitionResponse()
	var records []record.Record
	for i := range req.Topics {
		asked := &req.Topics[i]
		answer := kmsg.NewAlterPartitionResponseTopic()
		answer.TopidID = asked.TopicID
		t, known := img.TopicByID(asked.TopicID)
		for j := range asked.Partitions {
			p, err := (*metadata.Partition)(nil), error(protocol.ErrUnknownTopicID)
			var rec *record.PartitionChange
			if known {
				p, rec, err = alterISR(img, broker, t, &asked.Partitions[j], req.Version, cache.of)
			}
			if rec != nil {
				records = append(records, rec)
			}
			answer.Partitions = append(answer.Partitions, alteredPartition(asked.Partitions[j].Partition, p, err))
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return records, resp, nil
}

// alterISR decides about one partition: it returns the partition as it is then,
// and what made it so. A proposal that completes a reassignment may move the
// leadership: that is both a record and an error, for the leader to look again.
func alterISR(img *metadata.Image, broker protocol.NodeID, t *metadata.Topic, req *kmsg.AlterPartitionRequestTopicPartition, version int16,
	rulesOf func(*metadata.Topic) rules,
) (*metadata.Partition, *record.PartitionChange, error) {
	p, ok := t.Partition(req.Partition)
	if !ok {
		return nil, nil, protocol.ErrUnknownTopicOrPartition
	}
	isr := proposedISR(req, version)
	if err := checkProposal(img, broker, p, req, isr); err != nil {
		return nil, nil, err
	}
	want := as(p)
	want.recovery = req.LeaderRecoveryState
	want.isr = make([]protocol.NodeID, len(isr))
	for i, member := range isr {
		want.isr[i] = member.broker
	}
	rec := partitionChange(t.ID, p, want, rulesOf(t))
	if rec == nil {
		return p, nil, nil
	}
	explain(rec, proposed(broker, p.ISR, want.isr, protocol.LossOf(&req.UnknownTags)))
	if rec.Leader != record.LeaderUnchanged && rec.Leader != broker {
		return nil, rec, protocol.ErrNewLeaderElected
	}
	return p.Changed(rec), rec, nil
}

// member is one of a proposed ISR.
type member struct {
	broker protocol.NodeID
	epoch  protocol.BrokerEpoch // −1: of before KIP-903, not checked
}

func proposedISR(req *kmsg.AlterPartitionRequestTopicPartition, version int16) []member {
	var isr []member
	if version < 3 {
		for _, id := range req.NewISR {
			isr = append(isr, member{protocol.NodeID(id), -1})
		}
		return isr
	}
	for _, m := range req.NewEpochISR {
		isr = append(isr, member{protocol.NodeID(m.BrokerID), protocol.BrokerEpoch(m.BrokerEpoch)})
	}
	return isr
}

// checkProposal refuses what an outdated leader proposes, and what is no ISR.
func checkProposal(img *metadata.Image, broker protocol.NodeID, p *metadata.Partition, req *kmsg.AlterPartitionRequestTopicPartition, isr []member) error {
	leaderEpoch, partitionEpoch := protocol.LeaderEpoch(req.LeaderEpoch), protocol.PartitionEpoch(req.PartitionEpoch)
	switch {
	case leaderEpoch > p.LeaderEpoch || partitionEpoch > p.PartitionEpoch:
		// The leader knows more than this controller, which is likely not the
		// active one any more.
		return protocol.ErrNotController
	case leaderEpoch < p.LeaderEpoch:
		return protocol.ErrFencedLeaderEpoch
	case broker != p.Leader:
		return protocol.ErrInvalidRequest
	case partitionEpoch < p.PartitionEpoch && broken != brokenFence:
		return protocol.ErrInvalidUpdateVersion
	}
	leads := false
	for i, m := range isr {
		if !slices.Contains(p.Replicas, m.broker) || slices.ContainsFunc(isr[:i], func(o member) bool { return o.broker == m.broker }) {
			return protocol.ErrInvalidRequest
		}
		leads = leads || m.broker == p.Leader
	}
	switch recovery := req.LeaderRecoveryState; {
	case !leads,
		recovery != 0 && recovery != recovering,
		recovery == recovering && len(isr) > 1,
		recovery == recovering && p.LeaderRecovery != recovering:
		return protocol.ErrInvalidRequest
	}
	for _, m := range isr {
		b, ok := img.Broker(m.broker)
		if !ok || b.Fenced || b.InControlledShutdown || m.epoch != -1 && m.epoch != b.Epoch && broken != brokenLife {
			return protocol.ErrIneligibleReplica
		}
	}
	return nil
}

func alteredPartition(id int32, p *metadata.Partition, err error) kmsg.AlterPartitionResponseTopicPartition {
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition, out.ErrorCode = id, int16(protocol.CodeOf(err))
	if err == nil {
		out.LeaderID, out.LeaderEpoch, out.PartitionEpoch = int32(p.Leader), int32(p.LeaderEpoch), int32(p.PartitionEpoch)
		out.ISR, out.LeaderRecoveryState = protocol.Int32s(p.ISR), p.LeaderRecovery
	}
	return out
}
