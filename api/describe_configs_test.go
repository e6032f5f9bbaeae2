package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

func configRecord(kind int8, name, key, value string) *record.Config {
	return &record.Config{ResourceType: kind, ResourceName: name, Name: key, Value: &value}
}

// configsAnswer is what a freshly made broker with one topic answers.
func configsAnswer(t *testing.T, req *kmsg.DescribeConfigsRequest) *configAnswer {
	return &configAnswer{
		self: 1, req: req, logLevel: "WARN",
		static: config.FromMap(map[string]string{"log.segment.bytes": "2097152", "ssl.key.password": "secret"}),
		img: imageOf(t,
			&record.Topic{Name: "a", TopicID: protocol.UUID{1}},
			configRecord(2, "a", "retention.ms", "5000"),
			configRecord(2, "a", "cleanup.policy", "compact, delete"),
			configRecord(4, "", "min.insync.replicas", "1"),
			configRecord(4, "1", "message.max.bytes", "2000"),
			configRecord(4, "", "message.max.bytes", "3000"),
			configRecord(4, "1", "my.own.key", "secret"),
			configRecord(4, "1", "log.roll.ms", " 5 "),
			configRecord(4, "1", "listener.name.x.max.connections", "7"),
			configRecord(32, "g", "consumer.session.timeout.ms", " 50000 "),
			configRecord(16, "m", "interval.ms", "60000"),
		),
	}
}

func describe(t *testing.T, version int16, kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsResponse {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = version
	req.IncludeSynonyms = version < 4 // so that both are tried
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
	resp := configsAnswer(t, req).answer()
	seen := kmsg.NewPtrDescribeConfigsResponse()
	seen.Version = version
	if err := seen.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return seen
}

func printConfigs(resp *kmsg.DescribeConfigsResponse) string {
	var b strings.Builder
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			fmt.Fprintf(&b, "%v: %s\n", protocol.Error(r.ErrorCode), *r.ErrorMessage)
		}
		for _, c := range r.Configs {
			value := "null"
			if c.Value != nil {
				value = *c.Value
			}
			fmt.Fprintf(&b, "%s=%s source=%d type=%d", c.Name, value, c.Source, c.ConfigType)
			for _, flag := range []struct {
				name string
				set  bool
			}{{"sensitive", c.IsSensitive}, {"read-only", c.ReadOnly}} {
				if flag.set {
					b.WriteString(" " + flag.name)
				}
			}
			for _, s := range c.ConfigSynonyms {
				value := "null"
				if s.Value != nil {
					value = *s.Value
				}
				fmt.Fprintf(&b, " %s:%s:%d", s.Name, value, s.Source)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestDescribeConfigs(t *testing.T) {
	const topic, broker, logger = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger
	const group, metrics = kmsg.ConfigResourceType(32), kmsg.ConfigResourceType(16)
	for _, test := range []struct {
		name string
		resp *kmsg.DescribeConfigsResponse
		want string
	}{
		{"topic, set and inherited", describe(t, 4, topic, "a", "retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas", "max.message.bytes", "flush.ms"), `
cleanup.policy=compact,delete source=1 type=7
flush.ms=9223372036854775807 source=5 type=5
max.message.bytes=2000 source=2 type=3
min.insync.replicas=1 source=3 type=3
retention.ms=5000 source=1 type=5
segment.bytes=2097152 source=4 type=3
`},
		{"topic, synonyms", describe(t, 3, topic, "a", "retention.ms", "segment.bytes", "max.message.bytes"), `
max.message.bytes=2000 source=2 type=3 message.max.bytes:2000:2 message.max.bytes:3000:3 message.max.bytes:1048588:5
retention.ms=5000 source=1 type=5 retention.ms:5000:1
segment.bytes=2097152 source=4 type=3 log.segment.bytes:2097152:4 log.segment.bytes:1073741824:5
`},
		{"types come with v3", describe(t, 2, topic, "a", "index.interval.bytes"), `
index.interval.bytes=4096 source=5 type=0 log.index.interval.bytes:4096:5
`},
		{"no such key", describe(t, 4, topic, "a", "no.such.key"), ""},
		{"key twice", describe(t, 4, topic, "a", "preallocate", "preallocate"), "preallocate=false source=5 type=1\n"},
		{"no such topic", describe(t, 4, topic, "none"), "UNKNOWN_TOPIC_OR_PARTITION: \n"},
		{"no name", describe(t, 4, topic, ""), "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed\n"},
		{"broker", describe(t, 4, broker, "1", "message.max.bytes", "ssl.key.password", "log.retention.ms", "log.retention.hours"), `
log.retention.hours=168 source=5 type=3 read-only
log.retention.ms=null source=5 type=5
message.max.bytes=2000 source=2 type=3
ssl.key.password=null source=4 type=9 sensitive
`},
		{"broker, keys that stand for one another", describe(t, 3, broker, "1", "log.roll.ms", "log.roll.hours"), `
log.roll.hours=168 source=5 type=3 read-only log.roll.hours:168:5
log.roll.ms=5 source=2 type=5 log.roll.ms: 5 :2 log.roll.hours:168:5
`},
		{"broker, keys of others", describe(t, 4, broker, "1", "my.own.key", "listener.name.x.max.connections"), `
listener.name.x.max.connections=7 source=2 type=3 read-only
my.own.key=null source=2 type=0 sensitive read-only
`},
		{"logger", describe(t, 4, logger, "1"), "root=WARN source=6 type=0\n"},
		{"another logger", describe(t, 4, logger, "1", "kafka"), ""},
		{"logger of another broker", describe(t, 4, logger, "7"), "INVALID_REQUEST: Unexpected broker id, expected 1 but received 7\n"},
		{"logger of nobody", describe(t, 4, logger, ""), "INVALID_REQUEST: Broker id must not be empty\n"},
		{"group", describe(t, 3, group, "g", "consumer.session.timeout.ms", "share.isolation.level", "streams.assignor.name"), `
consumer.session.timeout.ms=50000 source=8 type=3 consumer.session.timeout.ms: 50000 :8 group.consumer.session.timeout.ms:45000:5
share.isolation.level=read_uncommitted source=5 type=2 share.isolation.level:read_uncommitted:5
streams.assignor.name=sticky source=5 type=2 group.streams.assignors:sticky:5
`},
		{"no group", describe(t, 4, group, ""), "INVALID_REQUEST: Group name must not be empty\n"},
		{"subscription", describe(t, 3, metrics, "m"), `
interval.ms=60000 source=7 type=3 interval.ms:60000:7
match= source=5 type=7
metrics= source=5 type=7
`},
		{"no subscription", describe(t, 4, metrics, ""), "INVALID_REQUEST: Client metrics subscription name must not be empty\n"},
		{"all brokers", describe(t, 4, broker, ""), `
message.max.bytes=3000 source=3 type=3
min.insync.replicas=1 source=3 type=3
`},
		{"another broker", describe(t, 4, broker, "99"), "INVALID_REQUEST: Unexpected broker id, expected 1 or empty string, but received 99\n"},
		{"no broker", describe(t, 4, broker, "abc"), "INVALID_REQUEST: Broker id must be an integer, but it is: abc\n"},
		{"no such kind", describe(t, 4, 77, "x"), "INVALID_REQUEST: " + InvalidRequestText + "\n"},
	} {
		if got := printConfigs(test.resp); got != strings.TrimPrefix(test.want, "\n") {
			t.Errorf("%s: got\n%swant%s", test.name, got, test.want)
		}
	}
}

// All 38 keys are answered where none is named, an empty list included.
func TestDescribeAllTopicConfigs(t *testing.T) {
	for _, keys := range [][]string{nil, {}} {
		resp := describe(t, 4, kmsg.ConfigResourceTypeTopic, "a", keys...)
		if n := len(resp.Resources[0].Configs); n != 37 {
			t.Errorf("%d configs, want Kafka's 38 but the internal one", n)
		}
	}
}

// One resource of a kind that does not exist spoils the request.
func TestDescribeConfigsOfAnUnknownKind(t *testing.T) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}, {ResourceType: 0, ResourceName: "x"}}
	for _, r := range configsAnswer(t, req).answer().Resources {
		if protocol.Error(r.ErrorCode) != protocol.ErrInvalidRequest || len(r.Configs) != 0 {
			t.Errorf("%s: %v", r.ResourceName, protocol.Error(r.ErrorCode))
		}
	}
}

func TestDocumentation(t *testing.T) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeDocumentation = 4, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}}
	for _, c := range configsAnswer(t, req).answer().Resources[0].Configs {
		if c.Documentation == nil || *c.Documentation == "" {
			t.Errorf("%s is not documented", c.Name)
		}
	}
}
