//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// TestConsoleRoundTrip: 100,000 records with keys and headers in each codec
// through Kafka's console producer (idempotent by default) and its console
// consumer, which reads a partition without a group.
func TestConsoleRoundTrip(t *testing.T) {
	kafka := harness.KafkaTools(t)
	n := harness.Start(t)
	recs := make100k()
	var in strings.Builder
	for _, r := range recs {
		in.WriteString("h:" + r.header + "\t" + r.key + "\t" + r.value + "\n")
	}
	for _, codec := range codecs {
		t.Run(codec, func(t *testing.T) {
			topic := "console-" + codec
			createTopic(t, n.Address, topic, 1)
			output(t, []byte(in.String()), kafka, "console-producer", "--bootstrap-server", n.Address, "--topic", topic,
				"--compression-codec", codec, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
			out := output(t, nil, kafka, "console-consumer", "--bootstrap-server", n.Address, "--topic", topic, "--partition", "0",
				"--offset", "earliest", "--max-messages", "100000", "--timeout-ms", "60000", "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
			var got []rec
			for _, r := range fromLines(t, out, "") {
				got = append(got, rec{header: strings.TrimPrefix(r.key, "h:"), key: r.value, value: r.header})
			}
			same(t, got, recs)
		})
	}
}

// TestTopicTools: Kafka's topic tool creates, shows, lists and deletes, and
// the tools that only ask find their answers.
func TestTopicTools(t *testing.T) {
	kafka := harness.KafkaTools(t)
	n := harness.Start(t)
	topics := func(args ...string) string {
		t.Helper()
		return output(t, nil, kafka, append([]string{"topics", "--bootstrap-server", n.Address}, args...)...)
	}
	if out := topics("--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=1234567"); !strings.Contains(out, "Created topic made.") {
		t.Errorf("create printed %q", out)
	}
	describe := topics("--describe", "--topic", "made")
	for _, want := range []string{"PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=1234567", "Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1"} {
		if !strings.Contains(describe, want) {
			t.Errorf("describe does not say %q:\n%s", want, describe)
		}
	}
	if out := topics("--list"); strings.TrimSpace(out) != "made" {
		t.Errorf("list printed %q", out)
	}
	if out, err := tryOutput(nil, kafka, "topics", "--bootstrap-server", n.Address, "--create", "--topic", "made"); err == nil || !strings.Contains(err.Error()+out, "already exists") {
		t.Errorf("a second creation: %v %s", err, out)
	}
	configs := output(t, nil, kafka, "configs", "--bootstrap-server", n.Address, "--describe", "--entity-type", "topics", "--entity-name", "made")
	if !strings.Contains(configs, "retention.ms=1234567 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1234567}") {
		t.Errorf("configs printed %q", configs)
	}
	if out := output(t, nil, kafka, "cluster", "cluster-id", "--bootstrap-server", n.Address); !strings.Contains(out, harness.ClusterID) {
		t.Errorf("cluster-id printed %q", out)
	}
	quorum := output(t, nil, kafka, "metadata-quorum", "--bootstrap-server", n.Address, "describe", "--status")
	for _, want := range []string{`LeaderId: +1\b`, `LeaderEpoch: +[1-9]`, `CurrentVoters: +\[\{"id": 1\b`} {
		if !regexp.MustCompile(want).MatchString(quorum) {
			t.Errorf("the quorum's status lacks %s:\n%s", want, quorum)
		}
	}
	topics("--delete", "--topic", "made")
	if out := topics("--list"); strings.TrimSpace(out) != "" {
		t.Errorf("list printed %q after the deletion", out)
	}
}

// TestDumpLog: Kafka's dump tool reads our segments, indexes and producer
// snapshots, and our metadata log with its records.
func TestDumpLog(t *testing.T) {
	kafka := harness.KafkaTools(t)
	n := harness.Start(t)
	const topic, segment = "dumped", "00000000000000000000"
	createTopic(t, n.Address, topic, 1, "index.interval.bytes", "100")
	produceAll(t, n.Address, topic, make100k()[:10_000])
	n.Stop()
	dump := func(args ...string) string {
		t.Helper()
		out := output(t, nil, kafka, append([]string{"dump-log"}, args...)...)
		for _, bad := range []string{"isvalid: false", "Found timestamp mismatch", "Mismatches in", "Non-secutive offsets", "Non-consecutive offsets", "Index position", "Could not", "Exception"} {
			if strings.Contains(out, bad) {
				t.Errorf("dump-log %s says %q:\n%s", strings.Join(args, " "), bad, clip(out))
			}
		}
		return out
	}
	replica := n.Data(topic + "-0")
	log := dump("--deep-iteration", "--print-data-log", "--files", filepath.Join(replica, segment+".log"))
	if records := strings.Count(log, "| offset: "); records != 10_000 {
		t.Errorf("the dump has %d records", records)
	}
	if !strings.Contains(log, "| offset: 9999 ") || !strings.Contains(log, "headerKeys: [h] ") || !strings.Contains(log, "producerId: ") {
		t.Errorf("the dump lacks a record, header or producer:\n%s", clip(log))
	}
	dump("--files", filepath.Join(replica, segment+".index"))
	dump("--files", filepath.Join(replica, segment+".timeindex"))
	if out := dump("--files", filepath.Join(replica, "00000000000000010000.snapshot")); !strings.Contains(out, "producerId: ") || !strings.Contains(out, "lastOffset: 9999") {
		t.Errorf("the producer snapshot: %s", out)
	}
	metadata := dump("--cluster-metadata-decoder", "--files", n.Data("__cluster_metadata-0", segment+".log"))
	for _, want := range []string{
		"LeaderChange", `{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":33}}`,
		`"type":"REGISTER_BROKER_RECORD"`, `"type":"TOPIC_RECORD","version":0,"data":{"name":"dumped"`, `"type":"PARTITION_RECORD"`,
		`{"type":"CONFIG_RECORD","version":0,"data":{"resourceType":2,"resourceName":"dumped","name":"index.interval.bytes","value":"100"}}`,
		`"type":"PRODUCER_IDS_RECORD"`,
	} {
		if !strings.Contains(metadata, want) {
			t.Errorf("the metadata log lacks %s:\n%s", want, clip(metadata))
		}
	}
	checkpoint := dump("--cluster-metadata-decoder", "--files", n.Data("__cluster_metadata-0", segment+"-0000000000.checkpoint"))
	if !strings.Contains(checkpoint, "SnapshotHeader") || !strings.Contains(checkpoint, `"name":"transaction.version"`) {
		t.Errorf("the bootstrap checkpoint: %s", checkpoint)
	}
}

// TestKafkaOpensOurDirectory: a real Kafka node, started on a copy of our data
// directory after a clean stop, serves the same records.
func TestKafkaOpensOurDirectory(t *testing.T) {
	n := harness.Start(t)
	recs := make100k()[:20_000]
	for _, codec := range []string{"none", "zstd"} {
		createTopic(t, n.Address, "moved-"+codec, 1)
		produceAll(t, n.Address, "moved-"+codec, recs, franzCodec(codec))
	}
	n.Stop()

	// The copy has other ports, so that nothing of it can reach the original.
	peer := harness.Configured(t, harness.Kafka)
	if err := os.CopyFS(peer.Data(), os.DirFS(n.Data())); err != nil {
		t.Fatal(err)
	}
	peer.Restart()
	for _, codec := range []string{"none", "zstd"} {
		same(t, fromFranz(readAll(t, peer.Address, "moved-"+codec, 0, len(recs))), recs)
	}
	// It goes on where we stopped: the next record has the next offset.
	produceAll(t, peer.Address, "moved-none", recs[:1])
	if end := endOffset(t, peer.Address, "moved-none", 0); end != int64(len(recs))+1 {
		t.Errorf("after one more record the log ends at %d", end)
	}
	peer.Stop()
}

// TestClusterScript: scripts/cluster does what it says.
func TestClusterScript(t *testing.T) {
	dir := t.TempDir()
	port := harness.FreePort(t)
	t.Setenv("KLAMM", harness.Binary(t))
	cluster := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(output(t, nil, "../scripts/cluster", args...))
	}
	t.Cleanup(func() { _ = exec.Command("../scripts/cluster", "stop", dir).Run() })
	if out := cluster("start", dir, "1", port, "num.partitions=4"); out != "localhost:"+port {
		t.Fatalf("start printed %q", out)
	}
	config, err := os.ReadFile(filepath.Join(dir, "node1", "server.properties"))
	if err != nil || !strings.Contains(string(config), "\nnum.partitions=4\n") {
		t.Errorf("the configuration lacks the given line: %v\n%s", err, config)
	}
	before := cluster("pids", dir)
	if !regexp.MustCompile(`^1 [0-9]+$`).MatchString(before) {
		t.Errorf("pids printed %q", before)
	}
	cluster("kill-node", dir, "1")
	if out := cluster("pids", dir); out != "" {
		t.Errorf("pids printed %q after the kill", out)
	}
	cluster("start-node", dir, "1")
	deadline := time.Now().Add(patience)
	for !answers("localhost:" + port) {
		if time.Now().After(deadline) {
			t.Fatal("no answer after start-node")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if after := cluster("pids", dir); after == before || after == "" {
		t.Errorf("pids printed %q, before the kill %q", after, before)
	}
	cluster("stop", dir)
	if out := cluster("pids", dir); out != "" {
		t.Errorf("pids printed %q after the stop", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "node1", "data", ".kafka_cleanshutdown")); err != nil {
		t.Errorf("stop was not clean: %v", err)
	}
}
