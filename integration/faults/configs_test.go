//go:build integration

package faults

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// describeTopic asks for the settings of a topic: the named ones, or all.
func describeTopic(c *conn, topic string, keys ...string) []kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	if len(keys) > 0 {
		resource.ConfigNames = keys
	}
	req.Resources = append(req.Resources, resource)
	resp := ask[*kmsg.DescribeConfigsResponse](c, 4, req).Resources[0]
	wantCode(c.t, "DescribeConfigs of "+topic, resp.ErrorCode, protocol.None)
	return resp.Configs
}

// wantConfig waits until a setting of a topic is what it should be; a change
// that was answered shows on a broker soon after.
func wantConfig(c *conn, topic, key, value string, source kmsg.ConfigSource) {
	c.t.Helper()
	eventually(c.t, key+" is "+value+" from "+source.String(), func() bool {
		configs := describeTopic(c, topic, key)
		return len(configs) == 1 && text(configs[0].Value) == value && configs[0].Source == source
	})
}

// TestB161EveryTopicKey: tools could not make topics because the server did not
// know a key that Kafka has. All are taken and kept, also those without effect.
func TestB161EveryTopicKey(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	// Kafka 4.4's TopicConfig, with the defaults that it documents.
	for key, value := range map[string]string{
		"cleanup.policy":                          "delete",
		"compression.gzip.level":                  "-1",
		"compression.lz4.level":                   "9",
		"compression.type":                        "producer",
		"compression.zstd.level":                  "3",
		"delete.retention.ms":                     "86400000",
		"file.delete.delay.ms":                    "60000",
		"flush.messages":                          "9223372036854775807",
		"flush.ms":                                "9223372036854775807",
		"follower.replication.throttled.replicas": "",
		"index.interval.bytes":                    "4096",
		"leader.replication.throttled.replicas":   "",
		"local.retention.bytes":                   "-2",
		"local.retention.ms":                      "-2",
		"max.compaction.lag.ms":                   "9223372036854775807",
		"max.message.bytes":                       "1048588",
		"message.timestamp.after.max.ms":          "3600000",
		"message.timestamp.before.max.ms":         "9223372036854775807",
		"message.timestamp.type":                  "CreateTime",
		"min.cleanable.dirty.ratio":               "0.5",
		"min.compaction.lag.ms":                   "0",
		"min.insync.replicas":                     "1",
		"preallocate":                             "false",
		"remote.log.copy.disable":                 "false",
		"remote.log.delete.on.disable":            "false",
		"remote.storage.enable":                   "false",
		"retention.bytes":                         "-1",
		"retention.ms":                            "604800000",
		"segment.bytes":                           "1073741824",
		"segment.index.bytes":                     "10485760",
		"segment.jitter.ms":                       "0",
		"segment.ms":                              "604800000",
		"unclean.leader.election.enable":          "false",
	} {
		topic := unique(t, "topic")
		if got := tryCreateTopic(c, topic, key, value); got.ErrorCode != 0 {
			t.Errorf("%s=%s: %s, %s", key, value, protocol.Error(got.ErrorCode), text(got.ErrorMessage))
			continue
		}
		eventually(t, topic+" is there", func() bool { return metadata(c, topic).ErrorCode == 0 })
		wantConfig(c, topic, key, value, kmsg.ConfigSourceDynamicTopicConfig)
		deleteTopic(c, topic)
	}
}

// TestB162NamedKeys: DescribeConfigs with two or more keys gave nothing. It
// gives those, all where none is named, and leaves out what it does not know.
func TestB162NamedKeys(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	names := map[string]bool{}
	for _, config := range describeTopic(c, topic, "retention.ms", "cleanup.policy", "no.such.key") {
		names[config.Name] = true
	}
	if len(names) != 2 || !names["retention.ms"] || !names["cleanup.policy"] {
		t.Errorf("described are %v", names)
	}
	if all := describeTopic(c, topic); len(all) < 30 {
		t.Errorf("all keys are %d", len(all))
	}
}
