//go:build integration

package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// TestB098ValidateAnExistingTopic: a creation that is only validated succeeded
// for a topic that exists.
func TestB098ValidateAnExistingTopic(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	wantCode(t, "validation of an existing topic", askCreateTopic(c, newTopic(topic), true).ErrorCode, protocol.ErrTopicAlreadyExists)
	name := unique(t, "absent")
	wantCode(t, "validation of a new topic", askCreateTopic(c, newTopic(name), true).ErrorCode, protocol.None)
	wantAbsent(c, name)
}

// TestB099ValidateOnlyChangesNothing: topics and partitions were made although
// the request only asked for validation.
func TestB099ValidateOnlyChangesNothing(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	name := unique(t, "absent")
	wantCode(t, "validation of a new topic", askCreateTopic(c, newTopic(name), true).ErrorCode, protocol.None)
	topic := createTopic(c)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis, req.ValidateOnly = int32(patience.Milliseconds()), true
	grown := kmsg.NewCreatePartitionsRequestTopic()
	grown.Topic, grown.Count = topic, 4
	req.Topics = append(req.Topics, grown)
	wantCode(t, "validation of partitions", ask[*kmsg.CreatePartitionsResponse](c, 3, req).Topics[0].ErrorCode, protocol.None)
	// What would have been made is made in order, before this.
	createTopic(c)
	wantAbsent(c, name)
	if got := len(metadata(c, topic).Partitions); got != 1 {
		t.Errorf("%d partitions, want 1", got)
	}
}

// TestB101CreationTellsWhatWasMade: the answer to CreateTopics had −1 for the
// numbers that the request left to the broker, and too few or wrong
// settings. It has what Metadata and DescribeConfigs say afterwards.
func TestB101CreationTellsWhatWasMade(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	wanted := newTopic(unique(t, "topic"), "retention.ms", "604800000", "segment.bytes", "2000000")
	wanted.NumPartitions, wanted.ReplicationFactor = -1, -1
	created := askCreateTopic(c, wanted, false)
	wantCode(t, "creation", created.ErrorCode, protocol.None)
	eventually(t, "Metadata knows the topic", func() bool { return metadata(c, wanted.Topic).ErrorCode == 0 })
	found := metadata(c, wanted.Topic)
	if int(created.NumPartitions) != len(found.Partitions) || int(created.ReplicationFactor) != len(found.Partitions[0].Replicas) {
		t.Errorf("the answer says %d partitions of %d replicas, Metadata %d of %d", created.NumPartitions, created.ReplicationFactor, len(found.Partitions), len(found.Partitions[0].Replicas))
	}
	if created.TopicID != found.TopicID {
		t.Errorf("the answer has topic id %x, Metadata %x", created.TopicID, found.TopicID)
	}

	told := map[string]string{}
	for _, config := range created.Configs {
		told[config.Name] = fmt.Sprintf("%s (source %d)", text(config.Value), config.Source)
		given := config.Name == "retention.ms" || config.Name == "segment.bytes"
		if given != (config.Source == int8(kmsg.ConfigSourceDynamicTopicConfig)) {
			t.Errorf("%s has source %d", config.Name, config.Source)
		}
	}
	described := describeTopic(c, wanted.Topic)
	for _, config := range described {
		want := fmt.Sprintf("%s (source %d)", text(config.Value), config.Source)
		if told[config.Name] != want {
			t.Errorf("%s: the answer says %q, DescribeConfigs %q", config.Name, told[config.Name], want)
		}
	}
	if len(told) != len(described) || len(told) == 0 {
		t.Errorf("the answer has %d settings, DescribeConfigs %d", len(told), len(described))
	}
}

// TestB102NamesThatCollide: two topics whose names differ in dot and underscore
// only were made, and their metrics collided.
func TestB102NamesThatCollide(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	name := unique(t, "topic")
	dotted, underscored := strings.ReplaceAll(name, "-", "."), strings.ReplaceAll(name, "-", "_")
	wantCode(t, dotted, tryCreateTopic(c, dotted).ErrorCode, protocol.None)
	wantCode(t, underscored, tryCreateTopic(c, underscored).ErrorCode, protocol.ErrInvalidTopicException)
	wantAbsent(c, underscored)
}

// TestB104BadSettings: a value that is none in a topic's settings closed the
// connection or was ignored. It is an invalid config, and the message names
// key and value.
func TestB104BadSettings(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	for _, setting := range [][2]string{
		{"compression.type", "foo"},
		{"cleanup.policy", "x"},
		{"preallocate", "yes_this"},
		{"retention.ms", "abc"},
		{"retention.ms", "-2"},
		{"segment.bytes", "99999999999"},
		{"min.cleanable.dirty.ratio", "1.5"},
		{"unknown.key", "1"},
	} {
		name := unique(t, "topic")
		got := tryCreateTopic(c, name, setting[0], setting[1])
		wantCode(t, setting[0]+"="+setting[1], got.ErrorCode, protocol.ErrInvalidConfig)
		message := text(got.ErrorMessage)
		// Of a key that it does not know Kafka does not repeat the value.
		if !strings.Contains(message, setting[0]) || setting[0] != "unknown.key" && !strings.Contains(message, setting[1]) {
			t.Errorf("%s=%s: the message is %q", setting[0], setting[1], message)
		}
		wantAbsent(c, name)
	}
}

// text is what a string that may be null says.
func text(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}
