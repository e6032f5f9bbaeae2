package group

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// RecordText is a record of __consumer_offsets in the words of Kafka's dump tool
// (--offsets-decoder). It is not ok for records that are not known here: those
// of the newer protocols, and what cannot be read.
func RecordText(key, value []byte) (keyText, valueText string, ok bool) {
	if len(key) < 2 {
		return "", "", false
	}
	var k, v any
	switch kind := int16(binary.BigEndian.Uint16(key)); kind {
	case oldOffsetKey, offsetKey:
		var name kmsg.OffsetCommitKey
		ok = name.ReadFrom(key) == nil
		k = offsetKeyText{name.Group, name.Topic, name.Partition}
		if ok && value != nil {
			v, ok = readOffsetValue(value)
		}
	case groupKey:
		var name kmsg.GroupMetadataKey
		ok = name.ReadFrom(key) == nil
		k = groupKeyText{name.Group}
		if ok && value != nil {
			v, ok = readGroupValue(value)
		}
	}
	if !ok {
		return "", "", false
	}
	keyText = typed("type", key, k)
	if valueText = "<DELETE>"; value != nil {
		valueText = typed("version", value, v)
	}
	return keyText, valueText, true
}

// typed is a key or value with the number in front of it.
func typed(name string, field []byte, data any) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		panic(err) // strings and numbers
	}
	return fmt.Sprintf(`{"%s":"%d","data":%s}`, name, int16(binary.BigEndian.Uint16(field)), bytes.TrimSpace(text.Bytes()))
}

type offsetKeyText struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type groupKeyText struct {
	Group string `json:"group"`
}

type offsetValueText struct {
	Offset          int64   `json:"offset"`
	LeaderEpoch     *int32  `json:"leaderEpoch,omitempty"`
	Metadata        string  `json:"metadata"`
	CommitTimestamp int64   `json:"commitTimestamp"`
	ExpireTimestamp *int64  `json:"expireTimestamp,omitempty"`
	TopicID         *string `json:"topicId,omitempty"`
}

func readOffsetValue(value []byte) (offsetValueText, bool) {
	var v kmsg.OffsetCommitValue
	if len(value) < 2 || int16(binary.BigEndian.Uint16(value)) > newestOffsetValue || v.ReadFrom(value) != nil {
		return offsetValueText{}, false
	}
	t := offsetValueText{Offset: v.Offset, Metadata: v.Metadata, CommitTimestamp: v.CommitTimestamp}
	if v.Version >= 3 {
		t.LeaderEpoch = &v.LeaderEpoch
	}
	if v.Version == expiringOffsetValue {
		t.ExpireTimestamp = &v.ExpireTimestamp
	}
	if id := protocol.UUID(v.TopicID); v.Version >= 4 && id != protocol.ZeroUUID {
		text := id.String()
		t.TopicID = &text
	}
	return t, true
}

type groupValueText struct {
	ProtocolType          string       `json:"protocolType"`
	Generation            int32        `json:"generation"`
	Protocol              *string      `json:"protocol"`
	Leader                *string      `json:"leader"`
	CurrentStateTimestamp *int64       `json:"currentStateTimestamp,omitempty"`
	Members               []memberText `json:"members"`
}

type memberText struct {
	MemberID         string  `json:"memberId"`
	GroupInstanceID  *string `json:"groupInstanceId"`
	ClientID         string  `json:"clientId"`
	ClientHost       string  `json:"clientHost"`
	RebalanceTimeout int32   `json:"rebalanceTimeout"`
	SessionTimeout   int32   `json:"sessionTimeout"`
	Subscription     any     `json:"subscription"`
	Assignment       any     `json:"assignment"`
}

func readGroupValue(value []byte) (groupValueText, bool) {
	var v kmsg.GroupMetadataValue
	if len(value) < 2 || int16(binary.BigEndian.Uint16(value)) > newestGroupValue || v.ReadFrom(value) != nil {
		return groupValueText{}, false
	}
	t := groupValueText{
		ProtocolType: v.ProtocolType, Generation: v.Generation, Protocol: v.Protocol, Leader: v.Leader, Members: []memberText{},
	}
	if v.Version >= 2 {
		t.CurrentStateTimestamp = &v.CurrentStateTimestamp
	}
	for _, m := range v.Members {
		text := memberText{
			MemberID: m.MemberID, GroupInstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			RebalanceTimeout: m.RebalanceTimeoutMillis, SessionTimeout: m.SessionTimeoutMillis,
			Subscription: base64.StdEncoding.EncodeToString(m.Subscription), Assignment: base64.StdEncoding.EncodeToString(m.Assignment),
		}
		// Only consumers say what is inside.
		if v.ProtocolType == consumerType {
			text.Subscription, text.Assignment = consumerText(m.Subscription, m.Assignment, text.Subscription, text.Assignment)
		}
		t.Members = append(t.Members, text)
	}
	return t, true
}

type subscriptionText struct {
	Topics          []string             `json:"topics"`
	UserData        *string              `json:"userData"`
	OwnedPartitions []topicPartitionText `json:"ownedPartitions"`
	GenerationID    int32                `json:"generationId"`
	RackID          *string              `json:"rackId"`
}

type assignmentText struct {
	AssignedPartitions []topicPartitionText `json:"assignedPartitions"`
	UserData           *string              `json:"userData"`
}

type topicPartitionText struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// consumerText is what a consumer's bytes say, or them as they were.
func consumerText(subscription, assignment []byte, s, a any) (any, any) {
	var sub kmsg.ConsumerMemberMetadata
	if sub.ReadFrom(subscription) == nil {
		t := subscriptionText{
			Topics: sub.Topics, UserData: userData(sub.UserData), OwnedPartitions: []topicPartitionText{}, GenerationID: sub.Generation, RackID: sub.Rack,
		}
		for _, p := range sub.OwnedPartitions {
			t.OwnedPartitions = append(t.OwnedPartitions, topicPartitionText{p.Topic, p.Partitions})
		}
		s = t
	}
	var asg kmsg.ConsumerMemberAssignment
	if asg.ReadFrom(assignment) == nil {
		t := assignmentText{AssignedPartitions: []topicPartitionText{}, UserData: userData(asg.UserData)}
		for _, p := range asg.Topics {
			t.AssignedPartitions = append(t.AssignedPartitions, topicPartitionText{p.Topic, p.Partitions})
		}
		a = t
	}
	return s, a
}

func userData(b []byte) *string {
	if b == nil {
		return nil
	}
	text := base64.StdEncoding.EncodeToString(b)
	return &text
}
