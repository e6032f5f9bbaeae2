package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// klamm runs the command line and gives exit code and output.
func klamm(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func serverProperties(t *testing.T, dirs string, extra ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@localhost:9093",
		"listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093", "controller.listener.names=CONTROLLER", "log.dirs=" + dirs,
	}, extra...)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		args  string
		code  int
		texts string // in either output, | between
	}{
		{"", 0, "server|storage|metadata"},
		{"version", 0, "klamm unknown (go"},
		{"version now", 2, `"now"`},
		{"serve", 2, "serve"},
		{"server", 2, "server.properties|--dev"},
		{"server a b", 2, "--dev"},
		{"server --dev a", 2, `"a"`},
		{"server --dev --listen here", 2, "HOST:PORT"},
		{"server --dev --log-level loud", 2, "debug, info"},
		{"server --dev --log-format xml", 2, "json, text"},
		{"server --devel", 2, "--devel|--help"},
		{"server /no/such/file", 2, "/no/such/file"},
		{"server /no/such/file --data /x", 2, "--data"},
		{"storage", 0, "format|random-uuid"},
		{"storage format", 2, "--cluster-id|--config"},
		{"storage format -t", 2, "-t"},
		{"replicas verify", 2, "one topic"},
		{"replicas verify t", 2, "--bootstrap-server"},
		{"replicas verify t --bootstrap-server here", 2, "HOST:PORT"},
		{"log strays", 2, "--config or log directories"},
		{"log strays --config x y", 2, "either --config"},
		{"log strays --override a=b y", 2, "--override goes with"},
		{"metadata dump", 2, "one directory or file"},
		{"metadata dump /no/such/file", 1, "/no/such/file"},
		{"metadata show", 2, "directory or file"},
		{"metadata show --at tomorrow /tmp", 2, "tomorrow|2006-01-02"},
		{"metadata show ../../metadata/record/testdata/kafka features/group.version", 0, "1"},
		{"metadata show ../../metadata/record/testdata/kafka none", 1, "there is no none"},
		{"log dump", 2, "file or directory"},
		{"log dump --records ../../storage/testdata/kafka/clean", 0, "Log starting offset: 18|endTxnMarker: COMMIT"},
		{"metadata diff /tmp", 2, "two states"},
		{"metadata history /tmp", 2, "a kind and a name"},
		{"metadata history /tmp topics x", 2, "no topic, partition, broker"},
		{"metadata history /tmp topics/x", 2, "no topic, partition, broker"},
		{"help can-stop", 0, "NODE..."},
		{"help canstop", 2, `"canstop"`},
		{"help log strayz", 2, `"log strayz"`},
		{"metadata history ../../metadata/record/testdata/kafka partition orders/0", 0, "PARTITION_CHANGE_RECORD|isr: [1] -> []"},
		{"metadata history --at 30 --json ../../metadata/record/testdata/kafka topic orders", 0, `"type":"TOPIC_RECORD"`},
		{"metadata explain /tmp", 2, "a partition"},
		{"metadata explain /tmp orders", 2, "no partition such as"},
		{"metadata explain ../../metadata/record/testdata/kafka orders-0", 0, "orders-0 is offline|must return: 1"},
		{"metadata digest --at 163 ../../metadata/record/testdata/kafka", 0, "offset 163 epoch 1 digest "},
		{"metadata recover", 2, "the directories that are left"},
		{"metadata recover /no/such/directory", 1, "/no/such/directory"},
		{"quorum status", 2, "--bootstrap-server, --bootstrap-controller or one directory"},
		{"quorum status --bootstrap-server localhost:1 /tmp", 2, "--bootstrap-server, --bootstrap-controller or one directory"},
		{"quorum status --bootstrap-server localhost", 2, "HOST:PORT"},
		{"quorum status --bootstrap-server localhost:1 --bootstrap-controller localhost:1", 2, "one of"},
		{"quorum status --bootstrap-server localhost:1 --timeout 1ms", 1, "no answer after 1ms"},
		{"quorum add 4 --bootstrap-server localhost:1 --timeout 0", 2, "--timeout 0s leaves no time"},
		{"quorum status ../../metadata/record/testdata/kafka", 0, "epoch 1: controller 1 leads|of a dynamic quorum: 1 (tDh8TkleRpSZkmARjBG3LA|log: offsets 0 to 163|offsets below 163, epoch 1"},
		{"quorum status --json ../../metadata/record/testdata/kafka", 0, `"raft": null`},
		{"metadata diff ../../metadata/record/testdata/kafka@34 ../../metadata/record/testdata/kafka@40", 0, "--- offset 34|+++ offset 40|+/configs/topics/orders/cleanup.policy: compact"},
	} {
		code, out, errs := klamm(strings.Fields(test.args)...)
		if code != test.code {
			t.Errorf("klamm %s: exit code %d, want %d\n%s%s", test.args, code, test.code, out, errs)
		}
		for text := range strings.SplitSeq(test.texts, "|") {
			if !strings.Contains(out+errs, text) {
				t.Errorf("klamm %s does not say %q:\n%s%s", test.args, text, out, errs)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "a", "b"), t.TempDir()
	file := serverProperties(t, one+","+two)
	if code, out, errs := klamm("storage", "info", "-c", file); code != 1 || !strings.Contains(out, one+" is not formatted: klamm storage format ") {
		t.Errorf("info: %d %s%s", code, out, errs)
	}
	if code, out, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 0 {
		t.Fatalf("format: %d %s%s", code, out, errs)
	}
	var ids []string
	for _, dir := range []string{one, two} {
		meta, err := storage.ReadMetaProperties(vfs.OS(), dir)
		if err != nil || meta.ClusterID != "cluster-1" || meta.NodeID != 1 {
			t.Errorf("%s: %+v %v", dir, meta, err)
		}
		ids = append(ids, meta.DirectoryID.String())
	}
	if ids[0] == ids[1] {
		t.Errorf("both directories have the id %s", ids[0])
	}
	_, recs, ok, err := snapshot.ReadBootstrap(vfs.OS(), filepath.Join(one, metadataDir))
	if err != nil || !ok || len(recs) != 6 {
		t.Errorf("bootstrap checkpoint: %d records, there: %v, %v", len(recs), ok, err)
	}
	if _, err := os.Stat(filepath.Join(two, metadataDir)); err == nil {
		t.Error("the second directory has a metadata log too")
	}
	if code, out, errs := klamm("storage", "info", "-c", file); code != 0 || !strings.Contains(out, two+": node 1, cluster cluster-1, directory "+ids[1]) {
		t.Errorf("info: %d %s%s", code, out, errs)
	}

	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 1 || !strings.Contains(errs, "formatted already") {
		t.Errorf("a second format: %d %s", code, errs)
	}
	if code, _, errs := klamm("storage", "format", "-t", "cluster-2", "-c", file, "--ignore-formatted"); code != 1 || !strings.Contains(errs, "cluster-1") {
		t.Errorf("format for another cluster: %d %s", code, errs)
	}
	other := serverProperties(t, one, "node.id=1", "broker.id=1")
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", other, "-g"); code != 0 {
		t.Errorf("format of formatted directories with --ignore-formatted: %d %s", code, errs)
	}
}

// A format that was killed before its last step is done again.
func TestFormatAfterKill(t *testing.T) {
	dir := t.TempDir()
	file := serverProperties(t, dir)
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 0 {
		t.Fatal(errs)
	}
	if err := os.Rename(filepath.Join(dir, "meta.properties"), filepath.Join(dir, "meta.properties.tmp")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm("server", file); code != 1 || !strings.Contains(errs, "is not formatted") {
		t.Errorf("start: %d %s", code, errs)
	}
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 0 {
		t.Errorf("format again: %s", errs)
	}
	// But not over a log.
	if err := os.Remove(filepath.Join(dir, "meta.properties")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, metadataDir, "00000000000000000000.log"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 1 || !strings.Contains(errs, metadataDir) {
		t.Errorf("format over a log: %d %s", code, errs)
	}
}

// A directory that Apache Kafka wrote is not taken for a development node's.
func TestOtherQuorum(t *testing.T) {
	dir := t.TempDir()
	file := serverProperties(t, dir)
	if code, _, errs := klamm("storage", "format", "-t", "cluster-1", "-c", file); code != 0 {
		t.Fatal(errs)
	}
	if err := os.WriteFile(filepath.Join(dir, metadataDir, "00000000000000000000.log"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm("server", "--dev", "--listen", "localhost:0", "--data", dir); code != 1 || !strings.Contains(errs, "Apache Kafka") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestDevConfig(t *testing.T) {
	if _, err := devConfig("/data,2", "localhost:19999", nil); err == nil {
		t.Error("a directory with a comma is taken for two")
	}
	c, err := devConfig("/da ta", "localhost:19999", []string{"num.partitions=3"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listeners.Advertised[0].Address() != "localhost:19999" || c.Topics.NumPartitions != 3 || c.Dirs.Metadata != "/da ta" || len(c.Unknown) > 0 {
		t.Errorf("%+v %+v %+v, unknown %v", c.Listeners, c.Topics, c.Dirs, c.Unknown)
	}
	if c, err = devConfig("/data", "0.0.0.0:0", nil); err != nil {
		t.Fatal(err)
	}
	if host := c.Listeners.Advertised[0].Host; host == "0.0.0.0" || host == "" || c.Listeners.Broker[0].Port == 0 {
		t.Errorf("%+v", c.Listeners)
	}
	for _, listen := range []string{"", "localhost", "localhost:x", "localhost:70000", "a:b:c"} {
		if _, err := devConfig("/data", listen, nil); err == nil {
			t.Errorf("--listen %q is accepted", listen)
		}
	}
}

// The longest directory is taken, nothing happens without --yes, nothing is gone
// after it, and nothing happens twice.
func TestRecover(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "longest"), filepath.Join(t.TempDir(), "other")}
	const log = "__cluster_metadata-0/00000000000000000000.log"
	for _, dir := range dirs {
		if err := os.CopyFS(dir, os.DirFS("../../integration/metadata/testdata/three")); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if code, _, errs := klamm("metadata", "recover", dirs[0], dirs[1]); code != 1 || !strings.Contains(errs, "are both of node 2") {
		t.Errorf("two directories of one node: %d %s", code, errs)
	}
	meta := filepath.Join(dirs[1], "meta.properties")
	write(meta, strings.Replace(read(meta), "node.id=2", "node.id=3", 1))
	whole := read(filepath.Join(dirs[1], log))
	write(filepath.Join(dirs[1], log), whole[:len(whole)-10]) // its last batch is not whole

	code, out, errs := klamm("metadata", "recover", dirs[1], dirs[0])
	if code != 0 || !strings.Contains(out, "The longest is "+dirs[0]+" (node 2)") || !strings.Contains(out, "these are missing: 1.") ||
		!strings.Contains(out, "Nothing was changed.") {
		t.Errorf("without --yes: %d %s%s", code, out, errs)
	}
	if entries, err := os.ReadDir(filepath.Join(dirs[0], metadataDir)); err != nil || len(entries) != 4 {
		t.Errorf("without --yes there are %v, %v", entries, err)
	}
	lock, err := vfs.OS().Lock(filepath.Join(dirs[1], ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm("metadata", "recover", "--yes", dirs[0], dirs[1]); code != 1 || !strings.Contains(errs, "a process holds "+dirs[1]) {
		t.Errorf("of a running node: %d %s", code, errs)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	state := read(filepath.Join(dirs[0], metadataDir, "quorum-state"))
	if code, out, errs = klamm("metadata", "recover", "--yes", dirs[0], dirs[1]); code != 0 || !strings.Contains(out, "controller.quorum.voters=2@localhost:") {
		t.Errorf("with --yes: %d %s%s", code, out, errs)
	}
	if kept, err := filepath.Glob(filepath.Join(dirs[0], metadataDir, "quorum-state.before-recover-*")); err != nil || len(kept) != 1 || read(kept[0]) != state {
		t.Errorf("aside lie %v, %v", kept, err)
	}
	if _, out, errs := klamm("quorum", "status", dirs[0]); !strings.Contains(out, "voters of a static quorum: 2\n") || !strings.Contains(out, "epoch 101:") {
		t.Errorf("afterwards: %s%s", out, errs)
	}
	if code, _, errs := klamm("metadata", "recover", "--yes", dirs[0]); code != 1 || !strings.Contains(errs, "is the only voter already") {
		t.Errorf("twice: %d %s", code, errs)
	}
}

// A recovery that was stopped halfway is done again, as a whole: its epochs are above
// those of the quorum that was. The names of directories are no patterns.
func TestRecoverAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk[1]")
	metadataLog := filepath.Join(dir, metadataDir)
	if err := os.CopyFS(metadataLog, os.DirFS("../../metadata/record/testdata/kafka")); err != nil {
		t.Fatal(err)
	}
	meta := "version=1\ncluster.id=a2xhbW0tdGVzdC1jbHVzdA\nnode.id=2\ndirectory.id=" + protocol.NewUUID().String() + "\n"
	if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(meta), 0o644); err != nil {
		t.Fatal(err)
	}
	recover := []string{"metadata", "recover", "--yes", "--listener", "CONTROLLER://localhost:9093", dir}
	inTheWay := filepath.Join(metadataLog, "quorum-state.tmp")
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm(recover...); code != 1 || !strings.Contains(errs, "quorum-state.tmp") {
		t.Fatalf("where the epoch can not be written: %d %s", code, errs)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := klamm(recover...); code != 0 {
		t.Errorf("again: %d %s", code, errs)
	}
	if _, out, errs := klamm("quorum", "status", dir); !strings.Contains(out, "voters of a dynamic quorum: 2 ") || !strings.Contains(out, "epoch 101:") {
		t.Errorf("afterwards: %s%s", out, errs)
	}
}
