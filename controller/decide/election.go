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

// target is what a partition is to become. It starts as what the partition is,
// see as; slices are replaced, not written to.
type target struct {
	isr                        []protocol.NodeID
	replicas, adding, removing []protocol.NodeID
	// dirs are the directories of replicas that the partition does not have yet,
	// or that move; the others keep theirs.
	dirs     map[protocol.NodeID]protocol.UUID
	recovery int8
	// lost may have lost committed records in an unclean stop; NoNode for none.
	lost protocol.NodeID
	// preferred gives the partition back to its first replica (KIP-460); without
	// it a leader that may lead stays.
	preferred bool
}

func as(p *metadata.Partition) target {
	return target{
		isr: p.ISR, replicas: p.Replicas, adding: p.AddingReplicas, removing: p.RemovingReplicas,
		recovery: p.LeaderRecovery, lost: protocol.NoNode,
	}
}

// directory is where a replica of the target lies.
func (t *target) directory(p *metadata.Partition, id protocol.NodeID) protocol.UUID {
	if dir, ok := t.dirs[id]; ok {
		return dir
	}
	if i := slices.Index(p.Replicas, id); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return protocol.MigratingDir
}

// partitionChange returns the record that makes the target of a partition and,
// where its leader may not lead any longer, gives it another one. It returns nil
// where nothing changes. A reassignment whose replicas are all in the target's
// ISR is completed.
//
// The order of preference is: the leader that is; an ISR member in assignment
// order; where the ISR is empty, an eligible leader replica; where both are
// empty, the last known leader (it has everything that anybody has); where the
// topic allows it, any replica that lives. The last two may lose records, so they
// start over with an ISR of one, marked as recovering.
func partitionChange(topic protocol.UUID, p *metadata.Partition, want target, r rules) *record.PartitionChange {
	rec := record.NewPartitionChange(topic, p.ID)
	if want.completeReassignment() {
		rec.Cause = reassigned
	}
	isr := want.isr
	elr := eligible(p, want, r)
	leader, lossy := elect(p, want, elr, r)

	if leader != p.Leader || !containsAll(want.replicas, p.Replicas) {
		// A replica that leaves stops by the leader epoch, so it is raised also
		// where the leader stays.
		rec.Leader = leader
	}
	switch {
	case lossy:
		isr, elr, want.recovery = []protocol.NodeID{leader}, nil, recovering
		rec.Cause = uncleanElection
		if slices.Equal(p.LastKnownELR, isr) {
			rec.Cause = lastKnownElection
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
	if want.recovery != p.LeaderRecovery {
		rec.LeaderRecovery = want.recovery
	}
	setLastKnownLeader(rec, p, isr, leader, r)
	setAssignment(rec, p, want)
	if isNeutral(rec) {
		return nil
	}
	return rec
}

// setAssignment records what changes about who has a replica, and where.
func setAssignment(rec *record.PartitionChange, p *metadata.Partition, want target) {
	dirs := make([]protocol.UUID, len(want.replicas))
	for i, id := range want.replicas {
		dirs[i] = want.directory(p, id)
	}
	if !slices.Equal(dirs, p.Directories) {
		rec.Directories = dirs
	}
	if !slices.Equal(want.replicas, p.Replicas) {
		rec.Replicas = want.replicas
	}
	if !slices.Equal(want.adding, p.AddingReplicas) {
		rec.AddingReplicas = notNil(want.adding)
	}
	if !slices.Equal(want.removing, p.RemovingReplicas) {
		rec.RemovingReplicas = notNil(want.removing)
	}
}

// eligible is the ELR that goes with the target's ISR: those who were in the ISR
// when it fell below the minimum have all committed records, as nothing is
// committed there.
func eligible(p *metadata.Partition, want target, r rules) []protocol.NodeID {
	if !r.elr || len(want.isr) >= r.minISR {
		return nil
	}
	var elr []protocol.NodeID
	for _, id := range slices.Concat(p.ELR, p.ISR) {
		if id != want.lost && slices.Contains(want.replicas, id) && !slices.Contains(want.isr, id) && !slices.Contains(elr, id) {
			elr = append(elr, id)
		}
	}
	slices.Sort(elr)
	return elr
}

// elect returns the leader, NoNode where there can be none, and whether choosing
// it may lose committed records.
func elect(p *metadata.Partition, want target, elr []protocol.NodeID, r rules) (leader protocol.NodeID, lossy bool) {
	lives := func(id protocol.NodeID) bool {
		return slices.Contains(want.replicas, id) && r.mayLead(id, want.directory(p, id))
	}
	clean := func(id protocol.NodeID) bool {
		return (slices.Contains(want.isr, id) || len(want.isr) == 0 && slices.Contains(elr, id)) && lives(id)
	}
	if want.preferred && clean(want.replicas[0]) {
		return want.replicas[0], false
	}
	if clean(p.Leader) {
		return p.Leader, false
	}
	if i := slices.IndexFunc(want.replicas, clean); i >= 0 {
		return want.replicas[i], false
	}
	// Kafka elects the last known leader without a look at whether it lives; we
	// wait for it (invariant 10).
	if r.elr && len(want.isr) == 0 && len(elr) == 0 && len(p.LastKnownELR) == 1 && lives(p.LastKnownELR[0]) {
		return p.LastKnownELR[0], true
	}
	if r.unclean || broken == brokenUnclean {
		if i := slices.IndexFunc(want.replicas, lives); i >= 0 {
			return want.replicas[i], true
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

// hosted is a partition and its topic.
type hosted struct {
	topic     *metadata.Topic
	partition *metadata.Partition
}

// Leaving is which partitions a broker still has to leave, where they are too many
// for one decision. Decisions use it up; nil and its zero value say that nobody has
// looked yet.
type Leaving struct {
	rest []partitionID
}

type partitionID struct {
	topic     protocol.UUID
	partition int32
}

// list lists all, those first that nobody can use meanwhile where they are more than
// a decision's.
func (l *Leaving) list(img *metadata.Image, broker protocol.NodeID, lostRecords bool, most int) {
	var led, others []partitionID
	for t, p := range img.PartitionsOn(broker) {
		if !hasToLeave(p, broker, lostRecords) {
			continue
		}
		id := partitionID{t.ID, p.ID}
		if l.rest = append(l.rest, id); p.Leader == broker {
			led = append(led, id)
		} else {
			others = append(others, id)
		}
	}
	if len(l.rest) > most {
		l.rest = append(led, others...)
	}
}

func hasToLeave(p *metadata.Partition, broker protocol.NodeID, lostRecords bool) bool {
	return p.Leader == broker || slices.Contains(p.ISR, broker) || lostRecords && slices.Contains(p.ELR, broker)
}

// leaveISRs returns a change for the partitions that a broker has to leave: as
// leader, as a member of the ISR and, where it may have lost records, of the ELR.
// Where more is true it has to be asked again when these are made.
func leaveISRs(img *metadata.Image, env Env, broker protocol.NodeID, lostRecords bool, l *Leaving) (records []record.Record, more bool) {
	if l == nil {
		l = new(Leaving)
	}
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool {
		return id != broker && active(img, id)
	}}
	lost := protocol.NoNode
	if lostRecords {
		lost = broker
	}
	change := func(id partitionID) *record.PartitionChange {
		t, ok := img.TopicByID(id.topic)
		if !ok {
			return nil // deleted since it was listed
		}
		p, ok := t.Partition(id.partition)
		if !ok || !hasToLeave(p, broker, lostRecords) {
			return nil
		}
		want := as(p)
		want.isr, want.lost = without(p.ISR, broker), lost
		return partitionChange(t.ID, p, want, cache.of(t))
	}
	for {
		complete := len(l.rest) == 0
		if complete {
			l.list(img, broker, lostRecords, env.maxPartitions())
		}
		for ; len(l.rest) > 0; l.rest = l.rest[1:] {
			if len(records) == env.maxPartitions() {
				return records, true
			}
			if rec := change(l.rest[0]); rec != nil {
				records = append(records, rec)
			}
		}
		// What came while the list was worked through is on the next one.
		if complete || len(records) > 0 {
			return records, !complete
		}
	}
}

// electLeaderless returns a change for partitions without a leader that can have
// one now that broker lives.
func electLeaderless(img *metadata.Image, env Env, broker protocol.NodeID) []record.Record {
	cache := rulesCache{img: img, env: env, mayLead: func(id protocol.NodeID) bool {
		return id == broker || active(img, id)
	}}
	var records []record.Record
	for t, p := range img.PartitionsOn(broker) {
		if p.Leader != protocol.NoNode {
			continue
		}
		if len(records) == env.maxPartitions() {
			break // ElectLeaderless does the rest
		}
		if rec := partitionChange(t.ID, p, as(p), cache.of(t)); rec != nil {
			records = append(records, rec)
		}
	}
	return records
}

// without are the ids that are not in out, in their order.
func without(ids []protocol.NodeID, out ...protocol.NodeID) []protocol.NodeID {
	var rest []protocol.NodeID
	for _, id := range ids {
		if !slices.Contains(out, id) {
			rest = append(rest, id)
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

func containsAll(ids, all []protocol.NodeID) bool {
	for _, id := range all {
		if !slices.Contains(ids, id) {
			return false
		}
	}
	return true
}
