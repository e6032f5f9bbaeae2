package decide

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// Election types of ElectLeaders (KIP-460).
const (
	electPreferred int8 = 0
	electUnclean   int8 = 1
)

// ElectLeaders decides elections that an administrator asks for, each for itself:
// back to the preferred leader, or, for a partition without one, a leader that may
// have lost records. Asked for all partitions, those that need none are left out.
func ElectLeaders(img *metadata.Image, req *kmsg.ElectLeadersRequest, env Env) ([]record.Record, *kmsg.ElectLeadersResponse, error) {
	kind := req.ElectionType
	if req.Version < 1 {
		kind = electPreferred
	}
	if kind != electPreferred && kind != electUnclean {
		return nil, nil, protocol.Errorf(protocol.ErrInvalidRequest, "Unknown election type %d", kind)
	}
	resp := kmsg.NewPtrElectLeadersResponse()
	var records []record.Record
	answer := func(topic string) *kmsg.ElectLeadersResponseTopic {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = topic
		resp.Topics = append(resp.Topics, t)
		return &resp.Topics[len(resp.Topics)-1]
	}
	elect := func(to *kmsg.ElectLeadersResponseTopic, id int32, all bool) {
		rec, err := electLeader(img, to.Topic, id, kind, env)
		if rec != nil {
			records = append(records, rec)
		}
		if all && protocol.CodeOf(err) == protocol.ErrElectionNotNeeded {
			return
		}
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = id, int16(protocol.CodeOf(err)), messageOf(err)
		to.Partitions = append(to.Partitions, p)
	}
	if req.Topics == nil {
		for t := range img.Topics() {
			to := answer(t.Name)
			for p := range t.Partitions() {
				elect(to, p.ID, true)
			}
		}
		return records, resp, nil
	}
	for i := range req.Topics {
		to := answer(req.Topics[i].Topic)
		for _, id := range req.Topics[i].Partitions {
			elect(to, id, false)
		}
	}
	return records, resp, nil
}

func electLeader(img *metadata.Image, topic string, id int32, kind int8, env Env) (record.Record, error) {
	t, ok := img.Topic(topic)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrUnknownTopicOrPartition, "No such topic as %s", topic)
	}
	p, ok := t.Partition(id)
	if !ok {
		return nil, protocol.Errorf(protocol.ErrUnknownTopicOrPartition, "No such partition as %s-%d", topic, id)
	}
	if kind == electPreferred && p.Leader == p.Replicas[0] || kind == electUnclean && p.Leader != protocol.NoNode {
		return nil, protocol.Errorf(protocol.ErrElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	want := as(p)
	r := rulesFor(img, env, t, func(id protocol.NodeID) bool { return active(img, id) })
	r.unclean = kind == electUnclean
	want.preferred = kind == electPreferred
	rec := partitionChange(t.ID, p, want, r)
	switch {
	case rec != nil && kind == electPreferred:
		explain(rec, preferredElection)
		return rec, nil
	case rec != nil:
		explain(rec, uncleanElection)
		return rec, nil
	case kind == electPreferred:
		return nil, protocol.Errorf(protocol.ErrPreferredLeaderNotAvailable, "The preferred leader was not available.")
	default:
		return nil, protocol.Errorf(protocol.ErrEligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
	}
}

// Rebalance gives up to most partitions back to their preferred leaders, as
// auto.leader.rebalance.enable asks for. more tells that there may be others.
func Rebalance(img *metadata.Image, most int, env Env) (records []record.Record, more bool) {
	return electSome(img, most, env, func(p *metadata.Partition) bool { return p.Leader != p.Replicas[0] },
		func(r *rules, want *target) bool { want.preferred, r.unclean = true, false; return true }, preferredElection)
}

// ElectUnclean gives up to most partitions that have no leader one that may have
// lost records, where unclean.leader.election.enable allows it.
func ElectUnclean(img *metadata.Image, most int, env Env) (records []record.Record, more bool) {
	return electSome(img, most, env, leaderless, func(r *rules, _ *target) bool { return r.unclean }, uncleanElection)
}

// ElectLeaderless gives up to most partitions that have no leader one, where there
// can be one: after a broker's return there may be too many for one decision, or
// the office may end in between.
func ElectLeaderless(img *metadata.Image, most int, env Env) (records []record.Record, more bool) {
	return electSome(img, most, env, leaderless, func(*rules, *target) bool { return true }, "a broker came back")
}

func leaderless(p *metadata.Partition) bool { return p.Leader == protocol.NoNode }

// electSome elects leaders for up to most of the partitions that need one and
// whose topics' rules, once set, allow it.
func electSome(img *metadata.Image, most int, env Env, needs func(*metadata.Partition) bool, set func(*rules, *target) bool, cause string) (records []record.Record, more bool) {
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool { return active(img, id) }}
	for t := range img.Topics() {
		for p := range t.Partitions() {
			if !needs(p) {
				continue
			}
			if len(records) == most {
				return records, true
			}
			want, r := as(p), cache.of(t)
			if !set(&r, &want) {
				continue
			}
			if rec := partitionChange(t.ID, p, want, r); rec != nil {
				explain(rec, cause)
				records = append(records, rec)
			}
		}
	}
	return records, false
}
