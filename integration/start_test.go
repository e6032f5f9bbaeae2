//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refuses runs the binary, which must end by itself with the given exit code
// and say all of the texts.
func refuses(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	cmd := exec.Command(klammBinary(t), args...)
	cmd.Dir = t.TempDir()
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("klamm %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("klamm %s does not say %q:\n%s", strings.Join(args, " "), text, out)
		}
	}
}

// TestRefusals: what a node does not start on, and what it says.
func TestRefusals(t *testing.T) {
	n := newNode(t)
	unformatted := t.TempDir()
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "holiday.jpg"), "")
	otherNode := t.TempDir()
	write(t, filepath.Join(otherNode, "meta.properties"), "version=1\ncluster.id=x\nnode.id=7\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n")

	refuses(t, 1, []string{"server", n.config(), "--override", "log.dirs=" + unformatted}, unformatted, "klamm storage format --cluster-id ", "--config "+n.config())
	refuses(t, 1, []string{"server", n.config(), "--override", "log.dirs=" + foreign}, foreign, "holiday.jpg")
	refuses(t, 1, []string{"server", n.config(), "--override", "log.dirs=" + otherNode}, otherNode, "node 7", "node.id=1")
	refuses(t, 1, []string{"server", "--dev", "--listen", "localhost:0", "--data", foreign}, foreign, "holiday.jpg", "--data")
	refuses(t, 1, []string{"server", "--dev", "--listen", "localhost:0", "--data", otherNode}, otherNode, "node 7")
	refuses(t, 1, []string{"storage", "format", "-t", clusterID, "-c", n.config()}, n.data(), "--ignore-formatted")
	refuses(t, 2, []string{"server", n.config(), "--override", "num.partitions=none"}, "num.partitions=none", "at least 1")
	refuses(t, 2, []string{"server", filepath.Join(foreign, "no.properties")}, "no.properties")
	refuses(t, 2, []string{"server"}, "--dev")
	refuses(t, 2, []string{"serve"}, `"serve"`)
	for _, dir := range []string{unformatted, foreign, otherNode} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 {
			t.Errorf("%s was written to: %v, %v", dir, entries, err)
		}
	}
}

// TestRefusedDirectories: several directories that do not belong together, or that
// the cluster is too old for.
func TestRefusedDirectories(t *testing.T) {
	n := newNode(t)
	other := t.TempDir()
	start := []string{"server", n.config(), "--override", "log.dirs=" + n.data() + "," + other}
	meta, err := os.ReadFile(filepath.Join(n.data(), "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(other, "meta.properties")
	for content, texts := range map[string][]string{
		"version=1\ncluster.id=other\nnode.id=1\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n": {"cluster.id", `"other"`, clusterID},
		string(meta): {"the same directory.id"},
	} {
		write(t, file, content)
		refuses(t, 1, start, append(texts, file, filepath.Join(n.data(), "meta.properties"))...)
	}

	old := newNode(t)
	if err := os.RemoveAll(old.data()); err != nil {
		t.Fatal(err)
	}
	klamm := klammBinary(t)
	if out, err := exec.Command(klamm, "storage", "format", "-t", clusterID, "-c", old.config(), "-r", "3.6").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(t, file, "version=1\ncluster.id="+clusterID+"\nnode.id=1\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n")
	refuses(t, 1, []string{"server", old.config(), "--override", "log.dirs=" + old.data() + "," + other},
		"multiple log directories (aka JBOD) are not supported in the current MetadataVersion 3.6-IV2; need 3.7-IV2 or higher")
}

// TestSecondStart: a directory has one process at a time, and a port too.
func TestSecondStart(t *testing.T) {
	n := startNode(t)
	refuses(t, 1, []string{"server", n.config(), "--override", "listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:" + freePort(t)}, n.data())
	second := newNode(t)
	second.address = n.address
	second.configure(freePort(t))
	refuses(t, 1, []string{"server", second.config()}, n.address, "address already in use")
	refuses(t, 2, []string{"server", "--dev", "--data", t.TempDir(), "--listen", n.address}, n.address, "in use")
	if !answers(n.address) {
		t.Error("the first node does not answer any more")
	}
}

// TestCleanStop: SIGTERM leaves the mark that spares the next start its
// recovery, and no lock; what was written is there.
func TestCleanStop(t *testing.T) {
	n := startNode(t)
	createTopic(t, n.address, "kept", 1)
	recs := make100k()[:1000]
	produceAll(t, n.address, "kept", recs)
	n.stop()
	if _, err := os.Stat(n.data(".kafka_cleanshutdown")); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
	if _, err := os.Stat(n.data(".lock")); err == nil {
		t.Error("the lock file is still there")
	}
	n.start()
	same(t, fromFranz(readAll(t, n.address, "kept", 0, len(recs))), recs)
	if _, err := os.Stat(n.data(".kafka_cleanshutdown")); err == nil {
		t.Error("the mark is still there while the node runs: a kill would look like a clean stop")
	}
	n.stop()
}

// TestDev: klamm server --dev formats an empty directory, says how to connect,
// and finds everything again after kill -9.
func TestDev(t *testing.T) {
	n := &node{t: t, binary: klammBinary(t), dir: t.TempDir(), address: "localhost:" + freePort(t)}
	n.args = []string{"server", "--dev", "--data", n.data(), "--listen", n.address}
	n.start()
	createTopic(t, n.address, "greetings", 1)
	recs := make100k()[:1000]
	produceAll(t, n.address, "greetings", recs)
	n.kill()
	n.start()
	same(t, fromFranz(readAll(t, n.address, "greetings", 0, len(recs))), recs)
	n.stop()
	log := tail(n.logPath(), 1<<20)
	if want := "bootstrap.servers=" + n.address; !strings.Contains(log, want) || !strings.Contains(log, "kcat -b "+n.address) {
		t.Errorf("the output does not say how to connect (%s):\n%s", want, clip(log))
	}
}

// TestMetadataDump: our own dump reads a directory and a checkpoint.
func TestMetadataDump(t *testing.T) {
	n := startNode(t)
	createTopic(t, n.address, "dumped", 2)
	n.stop()
	for _, args := range [][]string{
		{"metadata", "dump", n.data()},
		{"metadata", "dump", "--json", n.data()},
		{"metadata", "dump", n.data("__cluster_metadata-0", "00000000000000000000.log")},
	} {
		out, err := n.run(args...)
		if err != nil || !strings.Contains(out, "TOPIC_RECORD") || !strings.Contains(out, "dumped") {
			t.Errorf("klamm %s: %v\n%s", strings.Join(args, " "), err, clip(out))
		}
	}
	checkpoint := n.data("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")
	if out, err := n.run("metadata", "dump", checkpoint); err != nil || !strings.Contains(out, "metadata.version") {
		t.Errorf("dump of the checkpoint: %v\n%s", err, out)
	}
	refuses(t, 1, []string{"metadata", "dump", n.config()}, n.config())
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestStates: a start and a stop go through Kafka's states, in the log and as a
// metric; while the metric says 3 the client port accepts, before it does not.
func TestStates(t *testing.T) {
	metrics := "localhost:" + freePort(t)
	n := newNode(t, "klamm.metrics.listener="+metrics)
	n.launch()
	for state := 0.0; state != 3; {
		before := answers(n.address)
		state = brokerState(metrics)
		if state >= 0 && state < 3 && before {
			t.Errorf("the client port accepts in state %v", state)
		}
	}
	n.waitReady()
	body := scrape(t, metrics)
	for _, want := range []string{"kafka_controller_kafkacontroller_activecontrollercount 1\n", "klamm_build_info{", "process_resident_memory_bytes "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, clip(body))
		}
	}
	n.stop()
	if brokerState(metrics) >= 0 {
		t.Error("metrics are still served")
	}
	var states []string
	for line := range strings.Lines(tail(n.logPath(), 1<<20)) {
		var entry struct {
			Message string
			Name    string `json:"state_name"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "broker state" {
			states = append(states, entry.Name)
		}
	}
	if got := strings.Join(states, " "); got != "STARTING RECOVERY RUNNING PENDING_CONTROLLED_SHUTDOWN SHUTTING_DOWN" {
		t.Errorf("states in the log: %s", got)
	}
	refuses(t, 2, []string{"server", n.config(), "--override", "klamm.metrics.listener=nowhere"}, "klamm.metrics.listener", "HOST:PORT")
}

// brokerState is the metric, −1 where nobody answers.
func brokerState(address string) float64 {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	_, after, ok := strings.Cut(string(body), "\nkafka_server_kafkaserver_brokerstate ")
	if !ok {
		return -1
	}
	text, _, _ := strings.Cut(after, "\n")
	state, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1
	}
	return state
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
