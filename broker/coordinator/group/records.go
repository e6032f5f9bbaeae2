package group

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/coordinator"
	"github.com/klamm/klamm/protocol"
)

// The first two bytes of a key are its type (CoordinatorRecordType.java): 0 and
// 1 are offsets, 2 is a classic group; from 3 on come the records of consumer
// (KIP-848), share (KIP-932) and streams groups (KIP-1071).
const (
	oldOffsetKey int16 = 0
	offsetKey    int16 = 1
	groupKey     int16 = 2
)

// The versions of values that are written, and the newest that are read.
const (
	expiringOffsetValue int16 = 1 // the only one with an expiry
	offsetValue         int16 = 4
	groupValue          int16 = 3
	newestOffsetValue   int16 = 4
	newestGroupValue    int16 = 4
)

// offset is a committed offset.
type offset struct {
	topicID     protocol.UUID // zero: not known
	offset      int64
	leaderEpoch int32 // −1: not known
	metadata    string
	commitMs    int64
	expireMs    int64 // −1: as the broker says
}

func offsetRecordKey(group, topic string, partition int32) []byte {
	key := kmsg.OffsetCommitKey{Version: offsetKey, Group: group, Topic: topic, Partition: partition}
	return key.AppendTo(nil)
}

func offsetRecord(group, topic string, partition int32, o offset) coordinator.Record {
	value := kmsg.OffsetCommitValue{
		Version: offsetValue, Offset: o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata,
		CommitTimestamp: o.commitMs, ExpireTimestamp: o.expireMs, TopicID: o.topicID,
	}
	if o.expireMs >= 0 {
		value.Version = expiringOffsetValue
	}
	return coordinator.Record{Key: offsetRecordKey(group, topic, partition), Value: value.AppendTo(nil)}
}

func offsetTombstone(group, topic string, partition int32) coordinator.Record {
	return coordinator.Record{Key: offsetRecordKey(group, topic, partition)}
}

func groupRecordKey(name string) []byte {
	key := kmsg.GroupMetadataKey{Version: groupKey, Group: name}
	return key.AppendTo(nil)
}

func groupTombstone(name string) coordinator.Record {
	return coordinator.Record{Key: groupRecordKey(name)}
}

// foundedRecord says no more than that a group exists.
func foundedRecord(g *group) coordinator.Record {
	value := kmsg.GroupMetadataValue{Version: groupValue, CurrentStateTimestamp: g.sinceMs}
	return coordinator.Record{Key: groupRecordKey(g.name), Value: value.AppendTo(nil)}
}

// groupRecord is a generation of a group. assignment may be nil where there are
// no members.
func groupRecord(g *group, assignment func(*member) []byte) coordinator.Record {
	value := kmsg.GroupMetadataValue{
		Version: groupValue, ProtocolType: g.protocolType, Generation: g.generation, Protocol: g.protocol,
		CurrentStateTimestamp: g.sinceMs,
	}
	if g.leader != "" {
		value.Leader = &g.leader
	}
	for _, m := range g.members {
		r := kmsg.NewGroupMetadataValueMember()
		r.MemberID, r.InstanceID, r.ClientID, r.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		r.RebalanceTimeoutMillis, r.SessionTimeoutMillis = m.rebalanceTimeoutMs, m.sessionTimeoutMs
		r.Subscription, r.Assignment = m.metadata(g.protocolName()), assignment(m)
		value.Members = append(value.Members, r)
	}
	return coordinator.Record{Key: groupRecordKey(g.name), Value: value.AppendTo(nil)}
}

// Replay implements coordinator.Machine. A record that can not be read is left
// out with a line in the log: the rest of the partition is worth having.
func (m *Machine) Replay(rec coordinator.Record) {
	if rec.Control {
		return // the end of a transaction, which nothing here belongs to
	}
	if err := m.replay(rec); err != nil {
		m.log.Error().Err(err).Int64("offset", rec.Offset).Msg("record of a group is damaged and was left out")
	}
}

func (m *Machine) replay(rec coordinator.Record) error {
	if len(rec.Key) < 2 {
		return fmt.Errorf("key has %d bytes, fewer than its type takes", len(rec.Key))
	}
	switch kind := int16(binary.BigEndian.Uint16(rec.Key)); kind {
	case oldOffsetKey, offsetKey:
		return m.replayOffset(rec)
	case groupKey:
		return m.replayGroup(rec)
	default:
		if m.unknown != nil {
			m.unknown[kind]++
		}
		return nil
	}
}

func (m *Machine) replayOffset(rec coordinator.Record) error {
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(rec.Key); err != nil {
		return fmt.Errorf("key of an offset: %w", err)
	}
	if rec.Value == nil {
		if g := m.groups[key.Group]; g != nil {
			g.dropOffset(key.Topic, key.Partition)
		}
		return nil
	}
	value := kmsg.NewOffsetCommitValue()
	value.LeaderEpoch, value.ExpireTimestamp = -1, -1
	if err := readValue(&value, rec.Value, newestOffsetValue); err != nil {
		return fmt.Errorf("offset of group %q, topic %q, partition %d: %w", key.Group, key.Topic, key.Partition, err)
	}
	if value.Version < 3 {
		value.LeaderEpoch = -1
	}
	if value.Version != expiringOffsetValue {
		value.ExpireTimestamp = -1
	}
	if rec.Transactional {
		return nil // pending until its transaction ends: there are no transactions yet
	}
	g := m.groups[key.Group]
	if g == nil {
		g = newGroup(key.Group)
		m.groups[key.Group] = g
	}
	g.putOffset(key.Topic, key.Partition, offset{
		topicID: value.TopicID, offset: value.Offset, leaderEpoch: value.LeaderEpoch, metadata: value.Metadata,
		commitMs: value.CommitTimestamp, expireMs: value.ExpireTimestamp,
	})
	return nil
}

// readValue reads a value whose version is one that we know: the layout of a
// later one may be any.
func readValue(into interface{ ReadFrom([]byte) error }, p []byte, newest int16) error {
	if len(p) < 2 {
		return fmt.Errorf("value has %d bytes, fewer than its version takes", len(p))
	}
	if v := int16(binary.BigEndian.Uint16(p)); v < 0 || v > newest {
		return fmt.Errorf("value has version %d, the newest known is %d", v, newest)
	}
	return into.ReadFrom(p)
}

func (m *Machine) replayGroup(rec coordinator.Record) error {
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(rec.Key); err != nil {
		return fmt.Errorf("key of a group: %w", err)
	}
	if rec.Value == nil {
		delete(m.groups, key.Group)
		return nil
	}
	value := kmsg.NewGroupMetadataValue()
	if err := readValue(&value, rec.Value, newestGroupValue); err != nil {
		return fmt.Errorf("group %q: %w", key.Group, err)
	}
	g := newGroup(key.Group)
	if old := m.groups[key.Group]; old != nil {
		g.offsets = old.offsets
	}
	g.generation, g.protocolType, g.protocol, g.sinceMs = value.Generation, value.ProtocolType, value.Protocol, -1
	if value.Version >= 2 {
		g.sinceMs = value.CurrentStateTimestamp
	}
	for _, r := range value.Members {
		g.addLoaded(&value, r)
	}
	if value.Leader != nil && g.has(*value.Leader) {
		g.leader = *value.Leader
	}
	if len(g.members) > 0 {
		g.state = stable
	}
	g.subscribed = g.subscriptions()
	m.groups[key.Group] = g
	return nil
}

// addLoaded adds a member of a record; one that is there twice only once.
func (g *group) addLoaded(value *kmsg.GroupMetadataValue, r kmsg.GroupMetadataValueMember) {
	if g.has(r.MemberID) || r.InstanceID != nil && g.static[*r.InstanceID] != "" {
		return
	}
	m := &member{
		id: r.MemberID, instance: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost,
		rebalanceTimeoutMs: r.RebalanceTimeoutMillis, sessionTimeoutMs: r.SessionTimeoutMillis,
		assignment: r.Assignment,
		protocols:  []kmsg.JoinGroupRequestProtocol{{Name: g.protocolName(), Metadata: r.Subscription}},
	}
	if value.Version < 1 || m.rebalanceTimeoutMs == -1 {
		m.rebalanceTimeoutMs = m.sessionTimeoutMs
	}
	if m.assignment == nil {
		m.assignment = []byte{}
	}
	g.add(m, value.ProtocolType)
}
