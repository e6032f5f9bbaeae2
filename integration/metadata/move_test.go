//go:build integration

package metadata

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// furnish does all operations, and fills a topic in every codec.
func furnish(n *node) {
	n.t.Helper()
	for _, o := range operations {
		o.do(n)
	}
	for name, codec := range codecs {
		createTopics(n, topic(name, 1))
		produceWith(n, codec, name, 0, "first of "+name, strings.Repeat("second of "+name, 100))
	}
}

// findings is what a client finds at a node, by question.
func findings(n *node) map[string]string {
	n.t.Helper()
	found := map[string]string{}
	note := func(question string, answer any) {
		text, err := json.Marshal(answer)
		if err != nil {
			n.t.Fatal(err)
		}
		found[question] = string(text)
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	var describe kmsg.DescribeConfigsRequest
	for _, t := range ask[*kmsg.MetadataResponse](n, all).Topics {
		note("topic "+*t.Topic, []any{t.TopicID, len(t.Partitions)})
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, *t.Topic
		describe.Resources = append(describe.Resources, resource)
	}
	for _, r := range ask[*kmsg.DescribeConfigsResponse](n, &describe).Resources {
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig || c.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig {
				note("config "+r.ResourceName+" "+c.Name, c.Value)
			}
		}
	}
	quotas := kmsg.NewPtrDescribeClientQuotasRequest()
	for _, e := range ask[*kmsg.DescribeClientQuotasResponse](n, quotas).Entries {
		var entity, values []string
		for _, part := range e.Entity {
			entity = append(entity, fmt.Sprint(part.Type, "=", text(part.Name)))
		}
		for _, v := range e.Values {
			values = append(values, fmt.Sprint(v.Key, "=", v.Value))
		}
		note("quota "+sorted(entity), sorted(values))
	}
	for _, u := range ask[*kmsg.DescribeUserSCRAMCredentialsResponse](n, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()).Results {
		var credentials []string
		for _, c := range u.CredentialInfos {
			credentials = append(credentials, fmt.Sprint(c.Mechanism, ":", c.Iterations))
		}
		note("credential of "+u.User, sorted(credentials))
	}
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	acls.Operation, acls.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	for _, r := range ask[*kmsg.DescribeACLsResponse](n, acls).Resources {
		var rules []string
		for _, a := range r.ACLs {
			rules = append(rules, fmt.Sprint(a.Principal, a.Host, a.Operation, a.PermissionType))
		}
		note(fmt.Sprint("acl ", r.ResourceType, r.ResourceName, r.ResourcePatternType), sorted(rules))
	}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = "group", nil
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Groups = append(offsets.Groups, group)
	n.until("offsets", offsets, func(resp kmsg.Response) bool {
		g := resp.(*kmsg.OffsetFetchResponse).Groups[0]
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				note(fmt.Sprint("offset of group in ", t.TopicID, p.Partition), []any{p.Offset, p.Metadata})
			}
		}
		return g.ErrorCode == 0
	})
	for name := range codecs {
		note("records of "+name, consume(n, name, 0, 2))
	}
	note("records of plain", consume(n, "plain", 2, 1)) // those before were deleted
	return found
}

// same compares findings.
func same(t *testing.T, want, got map[string]string) {
	t.Helper()
	if len(want) < 40 {
		t.Errorf("only %d things were found: %v", len(want), want)
	}
	for question, w := range want {
		if got[question] != w {
			t.Errorf("%s: it was %s, and is %q", question, w, got[question])
		}
	}
	for question, g := range got {
		if _, ok := want[question]; !ok {
			t.Errorf("%s: it is %s, and was not there", question, g)
		}
	}
}

var movedSettings = append([]string{"metadata.log.max.record.bytes.between.snapshots=5000"}, operationSettings...)

// moved is a node of the other kind on a copy of the directory.
func moved(t *testing.T, from *node, to harness.Kind) *node {
	t.Helper()
	n := bareNode(t, to, movedSettings...)
	if err := os.CopyFS(n.Data(), os.DirFS(from.Data())); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKafkaDirectory: what Apache Kafka has left opens here, and our commands
// read it; what klamm makes of it opens in Kafka again.
func TestKafkaDirectory(t *testing.T) {
	peer := newNode(t, harness.Kafka, "", movedSettings...)
	peer.start()
	furnish(peer)
	was := findings(peer)
	peer.stop()
	inspectDirectory(t, peer)

	n := moved(t, peer, harness.Klamm)
	for range 2 { // the second start finds Raft's own store
		n.start()
		same(t, was, findings(n))
		inspectDirectory(t, n) // of a running node
		n.stop()
	}
	inspectDirectory(t, n)

	n = moved(t, n, harness.Kafka)
	n.start()
	same(t, was, findings(n))
	n.stop()
}

// inspectDirectory asks klamm's commands for what furnish has left.
func inspectDirectory(t *testing.T, n *node) {
	t.Helper()
	show := func(args ...string) string {
		t.Helper()
		return harness.MustRun(t, append([]string{"metadata", "show"}, args...)...)
	}
	want := func(out string, all ...string) {
		t.Helper()
		for _, w := range all {
			if !strings.Contains(out, w) {
				t.Errorf("this does not say %q:\n%s", w, out)
			}
		}
	}
	want(show(n.Data()), "retention.ms: 7200000", "SCRAM-SHA-512", "producer_byte_rate: 1500", "nextProducerId: ", "__consumer_offsets", "metadata.version: 33")
	want(show(n.Data(), "configs/topics/minimum"), "min.insync.replicas: 2")
	if out := strings.TrimSpace(show("--json", n.Data(), "features/metadata.version")); out != "33" {
		t.Errorf("metadata.version is %q", out)
	}
	var tree map[string]any
	if err := json.Unmarshal([]byte(show("--json", n.Data())), &tree); err != nil || len(tree["topics"].(map[string]any)) < 10 {
		t.Errorf("the tree as JSON has the topics %v, %v", tree["topics"], err)
	}
	checkpoints, err := filepath.Glob(n.metadata("*.checkpoint"))
	if err != nil || len(checkpoints) < 2 {
		t.Fatalf("checkpoints %v, %v", checkpoints, err)
	}
	for _, path := range []string{n.Data(), n.metadata(), n.metadata(firstSegment), checkpoints[len(checkpoints)-1]} {
		want(show(path), "metadata.version: 33")
		want(harness.MustRun(t, "metadata", "dump", path), "TOPIC_RECORD")
		for line := range strings.Lines(harness.MustRun(t, "metadata", "dump", "--json", path)) {
			if !json.Valid([]byte(line)) {
				t.Errorf("dump --json prints %q", line)
			}
		}
	}
	if out, _, ok := harness.Run(t, "metadata", "show", "--at", "20", n.metadata(firstSegment), "topics/none"); ok {
		t.Errorf("at offset 20 there is a topic that came later: %s", out)
	}
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	if out, _, ok := harness.Run(t, "metadata", "show", "--at", yesterday, n.metadata(firstSegment)); ok {
		t.Errorf("yesterday there was something: %s", out)
	}
	now := time.Now().UTC().Add(time.Minute).Format(time.RFC3339)
	want(show("--at", now, n.Data(), "topics/none/partitions/0"), "leaderEpoch: ")
	want(harness.MustRun(t, "metadata", "diff", n.metadata(firstSegment)+"@40", n.Data()), "+/topics/none/topicId: ", "+/scram/SCRAM-SHA-512/dan")
	want(harness.MustRun(t, "log", "dump", n.Data("zstd-0")), "compresscodec: zstd", "isvalid: true")
	want(harness.MustRun(t, "log", "dump", "--records", n.Data("gzip-0", firstSegment)), "first of gzip")
	want(harness.MustRun(t, "log", "dump", n.Data()), "__consumer_offsets-")
}
