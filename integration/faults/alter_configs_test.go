//go:build integration

package faults

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// op is one change of IncrementalAlterConfigs.
type op struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	unset    = kmsg.IncrementalAlterConfigOpDelete
	add      = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

func incrementalAlter(c *conn, kind kmsg.ConfigResourceType, name string, ops ...op) int16 {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for _, op := range ops {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = op.key, op.op, op.value
		resource.Configs = append(resource.Configs, config)
	}
	req.Resources = append(req.Resources, resource)
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, 1, req).Resources[0].ErrorCode
}

func alterTopic(c *conn, topic string, ops ...op) int16 {
	c.t.Helper()
	return incrementalAlter(c, kmsg.ConfigResourceTypeTopic, topic, ops...)
}

// alterAll replaces all settings of a topic (AlterConfigs).
func alterAll(c *conn, topic string, settings map[string]*string) int16 {
	c.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for key, value := range settings {
		config := kmsg.NewAlterConfigsRequestResourceConfig()
		config.Name, config.Value = key, value
		resource.Configs = append(resource.Configs, config)
	}
	req.Resources = append(req.Resources, resource)
	return ask[*kmsg.AlterConfigsResponse](c, 2, req).Resources[0].ErrorCode
}

// TestB155ListsAreExtended: APPEND and SUBTRACT failed on a list that was not
// set, and took several values for one. They start from the default, take the
// values one by one, and are for lists only.
func TestB155ListsAreExtended(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	const key = "cleanup.policy"
	value := kmsg.StringPtr
	wantCode(t, "APPEND compact", alterTopic(c, topic, op{key, add, value("compact")}), protocol.None)
	wantConfig(c, topic, key, "delete,compact", kmsg.ConfigSourceDynamicTopicConfig)
	wantCode(t, "APPEND delete,compact", alterTopic(c, topic, op{key, add, value("delete,compact")}), protocol.None)
	wantCode(t, "SET a key behind it", alterTopic(c, topic, op{"segment.bytes", set, value("2000000")}), protocol.None)
	wantConfig(c, topic, "segment.bytes", "2000000", kmsg.ConfigSourceDynamicTopicConfig)
	wantConfig(c, topic, key, "delete,compact", kmsg.ConfigSourceDynamicTopicConfig)
	wantCode(t, "SUBTRACT compact", alterTopic(c, topic, op{key, subtract, value("compact")}), protocol.None)
	wantConfig(c, topic, key, "delete", kmsg.ConfigSourceDynamicTopicConfig)
	wantCode(t, "APPEND to a number", alterTopic(c, topic, op{"retention.ms", add, value("1")}), protocol.ErrInvalidConfig)
	wantCode(t, "SUBTRACT from a number", alterTopic(c, topic, op{"retention.ms", subtract, value("1")}), protocol.ErrInvalidConfig)
}

// TestB156NullValues: a null value of a setting was taken or crashed the
// broker.
func TestB156NullValues(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	name := unique(t, "absent")
	wanted := newTopic(name, "retention.ms", "")
	wanted.Configs[0].Value = nil
	wantCode(t, "CreateTopics", askCreateTopic(c, wanted, false).ErrorCode, protocol.ErrInvalidConfig)
	wantAbsent(c, name)

	topic := createTopic(c, "retention.ms", "5000000")
	wantCode(t, "AlterConfigs", alterAll(c, topic, map[string]*string{"retention.ms": nil}), protocol.ErrInvalidRequest)
	for _, how := range []kmsg.IncrementalAlterConfigOp{set, add, subtract} {
		wantCode(t, how.String(), alterTopic(c, topic, op{"retention.ms", how, nil}), protocol.ErrInvalidRequest)
	}
	wantConfig(c, topic, "retention.ms", "5000000", kmsg.ConfigSourceDynamicTopicConfig)
}

// TestB158AlterConfigsReplacesAll: keys that AlterConfigs did not name stayed,
// or were set to their default. They are gone, and reported as defaults.
func TestB158AlterConfigsReplacesAll(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c, "retention.ms", "1000", "segment.bytes", "2000000")
	wantCode(t, "AlterConfigs", alterAll(c, topic, map[string]*string{"segment.bytes": kmsg.StringPtr("1048576")}), protocol.None)
	wantConfig(c, topic, "segment.bytes", "1048576", kmsg.ConfigSourceDynamicTopicConfig)
	wantConfig(c, topic, "retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
}

// TestB159SetToTheDefault: a key that was set to the value it has by default
// was reported as a default. It is a setting, and does not follow the default.
func TestB159SetToTheDefault(t *testing.T) {
	t.Parallel()
	n := ownNode(t) // the default of all topics is changed
	c := dial(t, n.Address)
	topic := createTopic(c)
	const key = "cleanup.policy"
	wantConfig(c, topic, key, "delete", kmsg.ConfigSourceDefaultConfig)
	wantCode(t, "SET", alterTopic(c, topic, op{key, set, kmsg.StringPtr("delete")}), protocol.None)
	wantConfig(c, topic, key, "delete", kmsg.ConfigSourceDynamicTopicConfig)
	wantCode(t, "SET of the cluster's default", incrementalAlter(c, kmsg.ConfigResourceTypeBroker, "",
		op{"log.cleanup.policy", set, kmsg.StringPtr("compact")}), protocol.None)
	follower := createTopic(c)
	wantConfig(c, follower, key, "compact", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	wantConfig(c, topic, key, "delete", kmsg.ConfigSourceDynamicTopicConfig)
	wantCode(t, "DELETE", alterTopic(c, topic, op{key, unset, nil}), protocol.None)
	wantConfig(c, topic, key, "compact", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
}
