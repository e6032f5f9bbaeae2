package decide

import (
	"slices"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// rules are what an election of one partition depends on besides its state.
type rules struct {
	// mayLead tells whether a replica lives: only such a one is elected.
	mayLead func(id protocol.NodeID, dir protocol.UUID) bool
	// minISR is min.insync.replicas. It may exceed the number of replicas: with
	// all of them in the ISR nobody is left to be eligible.
	minISR int
	// elr is eligible.leader.replicas.version ≥ 1.
	elr bool
	// unclean is unclean.leader.election.enable.
	unclean bool
}

// recovering is a leader recovery state: the leader may miss committed records
// (KIP-704).
const recovering int8 = 1

// partitionChange returns the record that gives a partition the ISR isr (its
// present one, less those who leave) and, where the leader is not among those
// who may lead, another leader. lost is a replica that may have lost committed
// records in an unclean stop, or NoNode. It returns nil where nothing changes.
//
// The order of preference is: the leader that is; an ISR member in assignment
// order; where the ISR is empty, an eligible leader replica; where both are
// empty, the last known leader (it has everything that anybody has); where the
// topic allows it, any replica that lives. The last two may lose records, so they
// start over with an ISR of one, marked as recovering.
func partitionChange(topic protocol.UUID, p *metadata.Partition, isr []protocol.NodeID, lost protocol.NodeID, r rules) *record.PartitionChange {
	rec := record.NewPartitionChange(topic, p.ID)
	elr := eligible(p, isr, lost, r)
	leader, lossy := elect(p, isr, elr, r)

	if leader != p.Leader {
		rec.Leader = leader
	}
	switch {
	case lossy:
		isr, elr = []protocol.NodeID{leader}, nil
		if p.LeaderRecovery != recovering {
			rec.LeaderRecovery = recovering
		}
	case leader != protocol.NoNode && !slices.Contains(isr, leader):
		isr, elr = []protocol.NodeID{leader}, without(elr, leader)
	}
	// Without ELR the last member stays in the ISR: it alone remembers who has
	// all committed records.
	if len(isr) == 0 && !r.elr {
		isr = p.ISR
	}
	if !slices.Equal(isr, p.ISR) {
		rec.ISR = notNil(isr)
	}
	if !slices.Equal(elr, p.ELR) {
		rec.ELR = notNil(elr)
	}
	setLastKnownLeader(rec, p, isr, leader, r)
	if isNeutral(rec) {
		return nil
	}
	return rec
}

// eligible is the ELR that goes with isr: those who were in the ISR when it fell
// below the minimum have all committed records, as nothing is committed there.
func eligible(p *metadata.Partition, isr []protocol.NodeID, lost protocol.NodeID, r rules) []protocol.NodeID {
	if !r.elr || len(isr) >= r.minISR {
		return nil
	}
	var elr []protocol.NodeID
	for _, id := range slices.Concat(p.ELR, p.ISR) {
		if id != lost && !slices.Contains(isr, id) && !slices.Contains(elr, id) {
			elr = append(elr, id)
		}
	}
	slices.Sort(elr)
	return elr
}

// elect returns the leader, NoNode where there can be none, and whether choosing
// it may lose committed records.
func elect(p *metadata.Partition, isr, elr []protocol.NodeID, r rules) (leader protocol.NodeID, lossy bool) {
	lives := func(id protocol.NodeID) bool {
		i := slices.Index(p.Replicas, id)
		return i >= 0 && r.mayLead(id, p.Directories[i])
	}
	clean := func(id protocol.NodeID) bool {
		return (slices.Contains(isr, id) || len(isr) == 0 && slices.Contains(elr, id)) && lives(id)
	}
	if clean(p.Leader) {
		return p.Leader, false
	}
	if i := slices.IndexFunc(p.Replicas, clean); i >= 0 {
		return p.Replicas[i], false
	}
	// Kafka elects the last known leader without a look at whether it lives; we
	// wait for it (invariant 10).
	if r.elr && len(isr) == 0 && len(elr) == 0 && len(p.LastKnownELR) == 1 && lives(p.LastKnownELR[0]) {
		return p.LastKnownELR[0], true
	}
	if r.unclean {
		if i := slices.IndexFunc(p.Replicas, lives); i >= 0 {
			return p.Replicas[i], true
		}
	}
	return protocol.NoNode, false
}

// setLastKnownLeader records who led when the ISR became empty, and forgets it
// once there is a leader again.
func setLastKnownLeader(rec *record.PartitionChange, p *metadata.Partition, isr []protocol.NodeID, leader protocol.NodeID, r rules) {
	switch {
	case !r.elr:
		if len(p.LastKnownELR) > 0 {
			rec.LastKnownELR = []protocol.NodeID{}
		}
	case leader != protocol.NoNode:
		if len(p.LastKnownELR) > 0 {
			rec.LastKnownELR = []protocol.NodeID{}
		}
	case len(isr) == 0 && p.Leader != protocol.NoNode && !slices.Equal(p.LastKnownELR, []protocol.NodeID{p.Leader}):
		rec.LastKnownELR = []protocol.NodeID{p.Leader}
	}
}

func isNeutral(r *record.PartitionChange) bool {
	return r.Leader == record.LeaderUnchanged && r.LeaderRecovery == record.RecoveryUnchanged &&
		r.ISR == nil && r.ELR == nil && r.LastKnownELR == nil && r.Replicas == nil &&
		r.RemovingReplicas == nil && r.AddingReplicas == nil && r.Directories == nil
}

// rulesFor collects what the image says for one topic. mayLead may see brokers
// otherwise than the image does: one of them is about to change.
func rulesFor(img *metadata.Image, env Env, t *metadata.Topic, mayLead func(protocol.NodeID) bool) rules {
	return rules{
		minISR:  int(topicValue(img, env, t.Name, minISRKey).Int),
		elr:     elrEnabled(img),
		unclean: topicValue(img, env, t.Name, "unclean.leader.election.enable").Bool,
		mayLead: func(id protocol.NodeID, dir protocol.UUID) bool {
			return mayLead(id) && dirOnline(img, id, dir)
		},
	}
}

// dirOnline tells whether a replica's directory is not known to be gone.
func dirOnline(img *metadata.Image, id protocol.NodeID, dir protocol.UUID) bool {
	switch dir {
	case protocol.UnassignedDir, protocol.MigratingDir:
		return true
	case protocol.LostDir:
		return false
	}
	b, ok := img.Broker(id)
	return ok && (len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, dir))
}

// rulesCache computes the rules of each topic once: partitions come grouped by
// topic.
type rulesCache struct {
	img     *metadata.Image
	env     Env
	mayLead func(protocol.NodeID) bool
	topic   *metadata.Topic
	rules   rules
}

func (c *rulesCache) of(t *metadata.Topic) rules {
	if c.topic != t {
		c.topic, c.rules = t, rulesFor(c.img, c.env, t, c.mayLead)
	}
	return c.rules
}

// leaveISRs returns a change for every partition that a broker has to leave: as
// leader, as a member of the ISR and, where it may have lost records, of the ELR.
func leaveISRs(img *metadata.Image, env Env, broker protocol.NodeID, lostRecords bool) []record.Record {
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool {
		return id != broker && active(img, id)
	}}
	lost := protocol.NoNode
	if lostRecords {
		lost = broker
	}
	var records []record.Record
	for t, p := range img.PartitionsOn(broker) {
		inISR := slices.Contains(p.ISR, broker)
		inELR := lostRecords && slices.Contains(p.ELR, broker)
		if !inISR && !inELR && p.Leader != broker {
			continue
		}
		if rec := partitionChange(t.ID, p, without(p.ISR, broker), lost, cache.of(t)); rec != nil {
			records = append(records, rec)
		}
	}
	return records
}

// electLeaderless returns a change for every partition without a leader that can
// have one now that broker lives.
func electLeaderless(img *metadata.Image, env Env, broker protocol.NodeID) []record.Record {
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool {
		return id == broker || active(img, id)
	}}
	var records []record.Record
	for t, p := range img.PartitionsOn(broker) {
		if p.Leader != protocol.NoNode {
			continue
		}
		if rec := partitionChange(t.ID, p, p.ISR, protocol.NoNode, cache.of(t)); rec != nil {
			records = append(records, rec)
		}
	}
	return records
}

func without(ids []protocol.NodeID, id protocol.NodeID) []protocol.NodeID {
	var rest []protocol.NodeID
	for _, x := range ids {
		if x != id {
			rest = append(rest, x)
		}
	}
	return rest
}

// notNil makes "becomes empty" out of "stays as it is".
func notNil(ids []protocol.NodeID) []protocol.NodeID {
	if ids == nil {
		return []protocol.NodeID{}
	}
	return ids
}
