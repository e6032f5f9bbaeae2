package group

import (
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

func (g *group) putOffset(topic string, partition int32, o offset) {
	if g.offsets == nil {
		g.offsets = make(map[string]map[int32]offset)
	}
	of := g.offsets[topic]
	if of == nil {
		of = make(map[int32]offset)
		g.offsets[topic] = of
	}
	of[partition] = o
}

func (g *group) dropOffset(topic string, partition int32) {
	of := g.offsets[topic]
	delete(of, partition)
	if len(of) == 0 {
		delete(g.offsets, topic)
	}
}

// offset returns what is committed for a partition. What was committed for an
// earlier topic of the same name is nothing.
func (g *group) offset(p TopicIDPartition) (offset, bool) {
	o, ok := g.offsets[p.Topic][p.Partition]
	if ok && o.topicID != protocol.ZeroUUID && p.ID != protocol.ZeroUUID && o.topicID != p.ID {
		return offset{}, false
	}
	return o, ok
}

// commit handles OffsetCommit, of a member or of somebody who uses the group to
// store offsets alone. The group "" may do so too.
func (t *turn) commit(to coordinator.Token, e Commit) {
	g := t.groups[e.Group]
	if err := g.validateCommit(&e); err != nil {
		t.refuse(to, err)
		return
	}
	if g != nil && (g.state == stable || g.state == preparing) {
		if m := g.byID[e.Member]; m != nil {
			t.session(g, m)
		}
	}
	now := nowMs(t.now)
	expire := int64(-1)
	if e.RetentionMs != -1 {
		expire = now + e.RetentionMs
	}
	answers := make([]Committed, len(e.Offsets))
	for i, o := range e.Offsets {
		answers[i] = Committed{Topic: o.Topic, Partition: o.Partition}
		if javaLength(o.Metadata) > t.cfg.MaxMetadataBytes {
			answers[i].Err = protocol.ErrOffsetMetadataTooLarge
			continue
		}
		t.out.Records = append(t.out.Records, offsetRecord(e.Group, o.Topic, o.Partition, offset{
			topicID: o.ID, offset: o.Offset, leaderEpoch: o.LeaderEpoch, metadata: o.Metadata, commitMs: now, expireMs: expire,
		}))
	}
	t.reply(to, answers)
}

// javaLength is the length of a text as Java's String has it.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// validateCommit tells whether a commit fits the group; nil is a group that is
// not there.
func (g *group) validateCommit(e *Commit) error {
	switch {
	case g == nil && e.Generation < 0:
		return nil
	case g == nil && e.FromNine:
		return protocol.ErrGroupIDNotFound
	case g == nil:
		return protocol.ErrIllegalGeneration
	case e.Generation < 0 && g.state == empty:
		return nil // nobody is assigned anything
	}
	if e.Generation < 0 && e.Member == "" && e.Instance == nil {
		return protocol.ErrUnknownMemberID
	}
	if err := g.validate(e.Member, e.Instance); err != nil {
		return err
	}
	if e.Generation != g.generation {
		return protocol.ErrIllegalGeneration
	}
	if g.state == completing {
		// Its partitions may be somebody else's when the leader has assigned.
		return protocol.ErrRebalanceInProgress
	}
	return nil
}

// fetch handles OffsetFetch. A group that is not there has no offsets.
func (t *turn) fetch(to coordinator.Token, e Fetch) {
	g := t.groups[e.Group]
	if !e.All {
		found := make([]FoundOffset, len(e.Partitions))
		for i, p := range e.Partitions {
			found[i] = FoundOffset{TopicIDPartition: p, Offset: -1, LeaderEpoch: -1}
			if g == nil {
				continue
			}
			if o, ok := g.offset(p); ok {
				found[i].Offset, found[i].LeaderEpoch, found[i].Metadata = o.offset, o.leaderEpoch, o.metadata
			}
		}
		t.reply(to, found)
		return
	}
	found := []FoundOffset{}
	if g != nil {
		for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
			of := g.offsets[topic]
			for _, partition := range slices.Sorted(maps.Keys(of)) {
				o := of[partition]
				found = append(found, FoundOffset{
					TopicIDPartition: TopicIDPartition{Topic: topic, ID: o.topicID, Partition: partition},
					Offset:           o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata,
				})
			}
		}
	}
	t.reply(to, found)
}

// deleteOffsets handles OffsetDelete (KIP-496): of a group that is empty, or of
// topics that its consumers do not subscribe to.
func (t *turn) deleteOffsets(to coordinator.Token, e DeleteOffsets) {
	if e.Group == "" {
		t.refuse(to, protocol.ErrInvalidGroupID)
		return
	}
	g := t.groups[e.Group]
	switch {
	case g == nil:
		t.refuse(to, protocol.ErrGroupIDNotFound)
		return
	case g.state != empty && g.protocolType != consumerType:
		t.refuse(to, protocol.ErrNonEmptyGroup)
		return
	}
	answers := make([]Committed, len(e.Partitions))
	for i, p := range e.Partitions {
		answers[i] = Committed{Topic: p.Topic, Partition: p.Partition}
		if g.isSubscribed(p.Topic) {
			answers[i].Err = protocol.ErrGroupSubscribedToTopic
		} else if _, ok := g.offsets[p.Topic][p.Partition]; ok {
			t.out.Records = append(t.out.Records, offsetTombstone(e.Group, p.Topic, p.Partition))
		}
	}
	t.reply(to, answers)
}

// topicsDeleted removes the offsets of topics that are gone.
func (t *turn) topicsDeleted(topics map[string]protocol.UUID) {
	t.out.Split = true
	for _, name := range slices.Sorted(maps.Keys(t.groups)) {
		g := t.groups[name]
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			for _, partition := range slices.Sorted(maps.Keys(g.offsets[topic])) {
				if id := g.offsets[topic][partition].topicID; id == protocol.ZeroUUID || id == topics[topic] {
					t.out.Records = append(t.out.Records, offsetTombstone(name, topic, partition))
				}
			}
		}
	}
}

// expireOffsets removes offsets that are older than they are kept, and groups
// that have neither offsets nor members.
func (t *turn) expireOffsets() {
	t.timer("retention", t.cfg.RetentionCheck, retentionCheck{})
	t.out.Split = true
	expired, groups := 0, 0
	for _, name := range slices.Sorted(maps.Keys(t.groups)) {
		g := t.groups[name]
		all := true
		for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
			for _, partition := range slices.Sorted(maps.Keys(g.offsets[topic])) {
				if !g.isExpired(topic, g.offsets[topic][partition], nowMs(t.now), t.cfg.Retention.Milliseconds()) {
					all = false
					continue
				}
				t.out.Records = append(t.out.Records, offsetTombstone(name, topic, partition))
				expired++
			}
		}
		if all && g.state == empty && len(g.pendingJoin) == 0 {
			t.out.Records = append(t.out.Records, groupTombstone(name))
			groups++
		}
	}
	if expired > 0 || groups > 0 {
		t.log.Info().Int("offsets", expired).Int("groups", groups).Msg("offsets expired")
	}
}

// isExpired tells whether an offset has been kept for long enough (KIP-211).
// Offsets of topics that consumers subscribe to are kept as long as there is one.
func (g *group) isExpired(topic string, o offset, nowMs, retentionMs int64) bool {
	if g.isSubscribed(topic) {
		return false
	}
	base := o.commitMs
	switch {
	case g.protocolType == "":
	case g.state == empty:
		if g.sinceMs >= 0 {
			base = g.sinceMs
		}
	case g.protocolType == consumerType && g.subscribed != nil && g.state == stable:
	default:
		return false
	}
	if o.expireMs >= 0 {
		return nowMs >= o.expireMs
	}
	return nowMs-base >= retentionMs
}
