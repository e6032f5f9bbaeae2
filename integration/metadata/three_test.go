//go:build integration

package metadata

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// startAll starts the nodes of a cluster.
func startAll(nodes []*node) {
	for _, n := range nodes {
		n.t.Helper()
		n.Launch()
	}
	for _, n := range nodes {
		n.serve(len(nodes))
	}
}

// furnishThree gives three nodes what an operator would: topics, one of which
// moves, configs, quotas, users, ACLs.
func furnishThree(nodes []*node) {
	n := nodes[0]
	createTopics(n, spread("orders", [][]int32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}, "retention.ms", "7200000", "cleanup.policy", "compact,delete"),
		spread("moved", [][]int32{{1, 2}}), spread("deleted", [][]int32{{2}}), spread("single", [][]int32{{3}}, "segment.bytes", "1048576"))
	alter(n, configs(topicConfig, "single", "set max.message.bytes 2000000"), configs(brokerConfig, "", "set log.cleaner.threads 2"))
	alter(n, configs(brokerConfig, "2", "set background.threads 12"))
	quotas(n, harness.Quota("user=ann", "producer_byte_rate=1000", "request_percentage=12.5"), harness.Quota("user=ann client-id=one", "consumer_byte_rate=2000"),
		harness.Quota("client-id=one", "consumer_byte_rate=3000"), harness.Quota("user", "producer_byte_rate=4000"))
	scram(n, []string{"ann/1", "bob/2"}, nil)
	scram(n, []string{"ann/2", "cid/1"}, nil)
	createACLs(n,
		acl(kmsg.ACLResourceTypeTopic, "orders", kmsg.ACLResourcePatternTypeLiteral, "User:ann", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow),
		acl(kmsg.ACLResourceTypeTopic, "ord", kmsg.ACLResourcePatternTypePrefixed, "User:bob", "127.0.0.1", kmsg.ACLOperationWrite, kmsg.ACLPermissionTypeDeny),
		acl(kmsg.ACLResourceTypeGroup, "*", kmsg.ACLResourcePatternTypeLiteral, "User:*", "*", kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow))
	deleteTopics(n, "deleted", [16]byte{})
	reassign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	reassign.TimeoutMillis = 30_000
	moved := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	moved.Topic = "moved"
	partition := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	partition.Replicas = []int32{3, 2}
	moved.Partitions = append(moved.Partitions, partition)
	reassign.Topics = append(reassign.Topics, moved)
	ask[*kmsg.AlterPartitionAssignmentsResponse](n, reassign)
	n.until("end of the move", kmsg.NewPtrListPartitionReassignmentsRequest(), func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.ListPartitionReassignmentsResponse).Topics) == 0
	})
	for _, other := range nodes { // all have all of it
		other.until("the moved topic", kmsg.NewPtrMetadataRequest(), func(resp kmsg.Response) bool {
			return slices.ContainsFunc(resp.(*kmsg.MetadataResponse).Topics, func(t kmsg.MetadataResponseTopic) bool {
				return *t.Topic == "moved" && slices.Equal(t.Partitions[0].Replicas, []int32{3, 2})
			})
		})
	}
}

// spread is a topic with its replicas assigned.
func spread(name string, replicas [][]int32, settings ...string) kmsg.CreateTopicsRequestTopic {
	t := topic(name, -1, settings...)
	t.ReplicationFactor = -1
	for i, r := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), r
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	return t
}

// threeSettings: snapshots come soon and time writes nothing.
var threeSettings = append([]string{"metadata.max.idle.interval.ms=0", "metadata.log.max.record.bytes.between.snapshots=4000"}, operationSettings...)

// isrList is a set in the order in which its members happened to come.
var isrList = regexp.MustCompile(`isr=\[[\d, ]+\]`)

// TestThreeNodes: Kafka's dump tool reads logs and snapshots of every node of
// three, and they say the same; its metadata shell prints of each the tree that it
// prints of Kafka's.
func TestThreeNodes(t *testing.T) {
	k := harness.Klamm
	if *record {
		k = harness.Kafka
	}
	nodes := newCluster(t, k, 3, shellRelease, threeSettings...)
	startAll(nodes)
	furnishThree(nodes)
	var ends []int64
	for _, n := range nodes {
		end := int64(0)
		// Nothing more is written once all brokers stand still.
		n.wait("an end of the log", func() bool {
			last := end
			end = n.logEnd()
			return end > 0 && end == last
		})
		ends = append(ends, end)
	}
	if slices.Min(ends) != slices.Max(ends) {
		t.Fatalf("the logs end at %v", ends)
	}
	var paths []string
	for i, n := range nodes {
		log := filepath.Join(t.TempDir(), firstSegment)
		copyFile(t, n.metadata(firstSegment), log)
		got := isrList.ReplaceAllStringFunc(treeText(tree(n, log), nodes...), sortedList)
		if *record && n != nodes[0] {
			continue
		}
		t.Run(fmt.Sprint("tree of node ", i+1), func(t *testing.T) { golden(t, "three_tree", "== tree\n"+got) })
		checkpoints, err := filepath.Glob(n.metadata("*.checkpoint"))
		if err != nil || len(checkpoints) < 2 {
			t.Errorf("node %d has the checkpoints %v, %v", i+1, checkpoints, err)
		}
		paths = append(append(paths, log), checkpoints...)
	}
	if *record {
		return
	}
	dumps := dumpLog(t, paths...)
	said := map[string]string{} // by file name
	for _, path := range paths {
		if len(parse(t, dumps[path])) == 0 {
			t.Errorf("the dump tool finds nothing in %s", path)
		}
		// Who has the same file has it to the byte; the 0-0 one is of the format.
		name := filepath.Base(path)
		if strings.HasPrefix(name, "00000000000000000000-") {
			continue
		}
		dump := strings.TrimSpace(dumps[path])
		if other, ok := said[name]; ok && other != dump {
			t.Errorf("%s: %s", path, difference(other, dump))
		}
		said[name] = dump
	}
}

func sortedList(list string) string {
	open, end := strings.IndexByte(list, '[')+1, len(list)-1
	ids := strings.Split(list[open:end], ", ")
	slices.Sort(ids)
	return list[:open] + strings.Join(ids, ", ") + list[end:]
}

// threeData is what one node of three of Kafka's has left, and threeFacts what
// Kafka's tools printed of the cluster.
const threeData, threeFacts = "testdata/three", "testdata/three.txt"

// TestThreeNodesOfKafka: of what three nodes of Apache Kafka have left klamm shows
// the topics, partitions, configs, users and ACLs that Kafka's own tools print.
//
//	go test -tags integration -run TestThreeNodesOfKafka ./integration/metadata -record
//
// does it to living nodes, compares each, and takes down what the test reads
// otherwise.
func TestThreeNodesOfKafka(t *testing.T) {
	if !*record {
		want, err := os.ReadFile(threeFacts)
		if err != nil {
			t.Fatal(err)
		}
		sameFacts(t, threeData, string(want), shownFacts(t, threeData))
		takeOver(t)
		return
	}
	nodes := newCluster(t, harness.Kafka, 3, "", threeSettings...)
	startAll(nodes)
	furnishThree(nodes)
	want := toolFacts(t, nodes[0])
	for _, n := range nodes {
		sameFacts(t, "the running node's "+n.Data(), want, shownFacts(t, n.Data()))
	}
	for _, n := range nodes {
		n.end(syscall.SIGKILL) // a stop in order would change leaders
	}
	for _, n := range nodes {
		sameFacts(t, "the dead node's "+n.Data(), want, shownFacts(t, n.Data()))
	}
	if err := os.WriteFile(threeFacts, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(threeData, "__cluster_metadata-0")
	if err := os.RemoveAll(threeData); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, nodes[1].Data("meta.properties"), filepath.Join(threeData, "meta.properties"))
	for _, pattern := range []string{"*.log", "*.checkpoint", "quorum-state"} {
		files, err := filepath.Glob(nodes[1].metadata(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			copyFile(t, f, filepath.Join(log, filepath.Base(f)))
		}
	}
}

// takeOver has klamm go on, as the only voter, with what a voter of three of Kafka's
// had.
func takeOver(t *testing.T) {
	t.Helper()
	n := bareNode(t, harness.Klamm, threeSettings...)
	n.Configure("node.id=2", "controller.quorum.voters=2@"+n.Controller)
	if err := os.CopyFS(n.Data(), os.DirFS(threeData)); err != nil {
		t.Fatal(err)
	}
	harness.MustRun(t, "metadata", "recover", "--yes", n.Data())
	n.start()
	lasting := func(facts string) string {
		return strings.Join(slices.DeleteFunc(strings.SplitAfter(facts, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "partition ") // its leaders and in-sync sets change
		}), "")
	}
	if was, is := lasting(shownFacts(t, threeData)), lasting(shownFacts(t, n.Data())); was != is {
		t.Errorf("- had Kafka only, + klamm only\n%s", difference("\n"+was, "\n"+is))
	}
	createTopics(n, spread("taken-over", [][]int32{{2}}))
}

func sameFacts(t *testing.T, what, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("%s: - say Kafka's tools only, + klamm only\n%s", what, difference("\n"+want, "\n"+got))
	}
	if strings.Count(want, "\n") < 25 {
		t.Errorf("there are few facts:\n%s", want)
	}
}

var (
	topicHead   = regexp.MustCompile(`^Topic: (\S+)\tTopicId: (\S+)\t`)
	topicLine   = regexp.MustCompile(`^\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: (\S*)\t`)
	configHead  = regexp.MustCompile(`^(?:Dynamic configs for (topic|broker) (\S+) are:|Default configs for (broker)s in the cluster are:)$`)
	configLine  = regexp.MustCompile(`^  (\S+?)=(.*?) sensitive=`)
	quotaLine   = regexp.MustCompile(`^Quota configs for (.*) are (.*)$`)
	quotaPart   = regexp.MustCompile(`the default (user-principal|client-id)|(user-principal|client-id) '([^']*)'`)
	scramLine   = regexp.MustCompile(`^SCRAM credential configs for user-principal '(\S+)' are (.*)$`)
	aclHead     = regexp.MustCompile("^Current ACLs for resource `ResourcePattern\\(resourceType=(\\w+), name=(\\S+), patternType=(\\w+)\\)`:")
	aclLine     = regexp.MustCompile(`\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)`)
	credentials = regexp.MustCompile(`(SCRAM-SHA-\d+)=iterations=(\d+)`)
)

// toolFacts is what Kafka's tools print, a fact a line, in order.
func toolFacts(t *testing.T, n *node) string {
	t.Helper()
	server := []string{"--bootstrap-server", n.Address}
	ask := func(args ...string) string {
		return run(t, harness.KafkaTools(t), append(args, server...)...)
	}
	var facts []string
	fact := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	for line := range strings.Lines(ask("topics", "--describe")) {
		if m := topicHead.FindStringSubmatch(line); m != nil {
			fact("topic %s id %s", m[1], m[2])
		} else if m := topicLine.FindStringSubmatch(line); m != nil {
			fact("partition %s-%s leader %s replicas %s in sync %s", m[1], m[2], m[3], m[4], m[5])
		}
	}
	for _, kind := range []string{"topics", "brokers"} {
		resource := ""
		for line := range strings.Lines(ask("configs", "--describe", "--entity-type", kind)) {
			line = strings.TrimSuffix(line, "\n")
			if m := configHead.FindStringSubmatch(line); m != nil {
				resource = m[1] + m[3] + " " + cmp.Or(m[2], "<default>")
			} else if m := configLine.FindStringSubmatch(line); m != nil {
				fact("config of %s: %s=%s", resource, m[1], m[2])
			}
		}
	}
	for _, kind := range []string{"users", "clients"} {
		entities := []string{"--entity-type", kind}
		for _, more := range [][]string{nil, {"--entity-type", "clients"}} {
			if kind == "clients" && more != nil {
				continue
			}
			for line := range strings.Lines(ask(append(append([]string{"configs", "--describe"}, entities...), more...)...)) {
				line = strings.TrimSuffix(line, "\n")
				if m := quotaLine.FindStringSubmatch(line); m != nil {
					var entity []string
					for _, part := range quotaPart.FindAllStringSubmatch(m[1], -1) {
						name := strings.Replace(part[1]+part[2], "user-principal", "user", 1) + "="
						if part[1] != "" {
							name += "<default>"
						}
						entity = append(entity, name+part[3])
					}
					for _, q := range strings.Split(m[2], ", ") {
						fact("quota of %s: %s", sorted(entity), strings.TrimSuffix(q, ".0"))
					}
				} else if m := scramLine.FindStringSubmatch(line); m != nil {
					for _, c := range credentials.FindAllStringSubmatch(m[2], -1) {
						fact("user %s %s iterations %s", m[1], c[1], c[2])
					}
				}
			}
		}
	}
	resource := ""
	for line := range strings.Lines(ask("java", "org.apache.kafka.tools.AclCommand", "--list")) {
		if m := aclHead.FindStringSubmatch(line); m != nil {
			resource = fmt.Sprintf("%s %s %s", m[1], m[2], m[3])
		}
		for _, m := range aclLine.FindAllStringSubmatch(line, -1) {
			fact("ACL on %s: %s from %s %s %s", resource, m[1], m[2], m[3], m[4])
		}
	}
	slices.Sort(facts)
	return strings.Join(slices.Compact(facts), "\n") + "\n"
}

// shownFacts is the same from klamm metadata show.
func shownFacts(t *testing.T, dir string) string {
	t.Helper()
	var state struct {
		Topics map[string]struct {
			TopicID    string
			Partitions map[string]struct {
				Leader        int
				Replicas, ISR []int
			}
		}
		Configs map[string]map[string]map[string]string
		Quotas  map[string]map[string]float64
		Scram   map[string]map[string]struct{ Iterations int }
		ACLs    map[string]struct {
			ResourceType, PatternType, Operation, PermissionType int8
			ResourceName, Principal, Host                        string
		}
	}
	out := harness.MustRun(t, "metadata", "show", "--json", dir)
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		t.Fatal(err)
	}
	var facts []string
	fact := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	for name, topic := range state.Topics {
		fact("topic %s id %s", name, topic.TopicID)
		for id, p := range topic.Partitions {
			fact("partition %s-%s leader %d replicas %s in sync %s", name, id, p.Leader, numbers(p.Replicas), numbers(p.ISR))
		}
	}
	for kind, resources := range state.Configs {
		for name, values := range resources {
			for key, value := range values {
				fact("config of %s %s: %s=%s", strings.TrimSuffix(kind, "s"), name, key, value)
			}
		}
	}
	for entity, values := range state.Quotas {
		for key, value := range values {
			fact("quota of %s: %s=%v", sorted(strings.Split(entity, ",")), key, value)
		}
	}
	for mechanism, users := range state.Scram {
		for user, credential := range users {
			fact("user %s %s iterations %d", user, mechanism, credential.Iterations)
		}
	}
	for _, a := range state.ACLs {
		fact("ACL on %v %s %v: %s from %s %v %v", kmsg.ACLResourceType(a.ResourceType), a.ResourceName, kmsg.ACLResourcePatternType(a.PatternType),
			a.Principal, a.Host, kmsg.ACLOperation(a.Operation), kmsg.ACLPermissionType(a.PermissionType))
	}
	slices.Sort(facts)
	return strings.Join(facts, "\n") + "\n"
}

func numbers(ids []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}
