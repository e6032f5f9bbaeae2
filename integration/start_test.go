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

	"github.com/klamm/klamm/integration/harness"
)

// refuses runs the binary, which must end by itself with the given exit code
// and say all of the texts.
func refuses(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), args...)
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
	n := harness.New(t)
	unformatted := t.TempDir()
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "holiday.jpg"), "")
	otherNode := t.TempDir()
	write(t, filepath.Join(otherNode, "meta.properties"), "version=1\ncluster.id=x\nnode.id=7\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n")

	refuses(t, 1, []string{"server", n.Config(), "--override", "log.dirs=" + unformatted}, unformatted, "klamm storage format --cluster-id ", "--config "+n.Config())
	refuses(t, 1, []string{"server", n.Config(), "--override", "log.dirs=" + foreign}, foreign, "holiday.jpg")
	refuses(t, 1, []string{"server", n.Config(), "--override", "log.dirs=" + otherNode}, otherNode, "node 7", "node.id=1")
	refuses(t, 1, []string{"server", "--dev", "--listen", "localhost:0", "--data", foreign}, foreign, "holiday.jpg", "--data")
	refuses(t, 1, []string{"server", "--dev", "--listen", "localhost:0", "--data", otherNode}, otherNode, "node 7")
	refuses(t, 1, []string{"storage", "format", "-t", harness.ClusterID, "-c", n.Config()}, n.Data(), "--ignore-formatted")
	refuses(t, 2, []string{"server", n.Config(), "--override", "num.partitions=none"}, "num.partitions=none", "at least 1")
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
	n := harness.New(t)
	other := t.TempDir()
	start := []string{"server", n.Config(), "--override", "log.dirs=" + n.Data() + "," + other}
	meta, err := os.ReadFile(filepath.Join(n.Data(), "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(other, "meta.properties")
	for content, texts := range map[string][]string{
		"version=1\ncluster.id=other\nnode.id=1\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n": {"cluster.id", `"other"`, harness.ClusterID},
		string(meta): {"the same directory.id"},
	} {
		write(t, file, content)
		refuses(t, 1, start, append(texts, file, filepath.Join(n.Data(), "meta.properties"))...)
	}

	old := formatted(t, "-r", "3.6")
	write(t, file, "version=1\ncluster.id="+harness.ClusterID+"\nnode.id=1\ndirectory.id=_BjCpGvAHrYgXiSRFrxJ3Q\n")
	refuses(t, 1, []string{"server", old.Config(), "--override", "log.dirs=" + old.Data() + "," + other},
		"multiple log directories (aka JBOD) are not supported in the current MetadataVersion 3.6-IV2; need 3.7-IV2 or higher")
}

// TestSecondStart: a directory has one process at a time, and a port too.
func TestSecondStart(t *testing.T) {
	n := harness.Start(t)
	refuses(t, 1, []string{"server", n.Config(), "--override", "listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:" + harness.FreePort(t)}, n.Data())
	second := harness.New(t)
	second.Configure("listeners=PLAINTEXT://" + n.Address + ",CONTROLLER://" + second.Controller)
	refuses(t, 1, []string{"server", second.Config()}, n.Address, "address already in use")
	refuses(t, 2, []string{"server", "--dev", "--data", t.TempDir(), "--listen", n.Address}, n.Address, "in use")
	if !answers(n.Address) {
		t.Error("the first node does not answer any more")
	}
}

// TestCleanStop: SIGTERM leaves the mark that spares the next start its
// recovery, and no lock; what was written is there.
func TestCleanStop(t *testing.T) {
	n := harness.Start(t)
	createTopic(t, n.Address, "kept", 1)
	recs := make100k()[:1000]
	produceAll(t, n.Address, "kept", recs)
	n.Stop()
	if _, err := os.Stat(n.Data(".kafka_cleanshutdown")); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
	if _, err := os.Stat(n.Data(".lock")); err == nil {
		t.Error("the lock file is still there")
	}
	n.Restart()
	same(t, fromFranz(readAll(t, n.Address, "kept", 0, len(recs))), recs)
	if _, err := os.Stat(n.Data(".kafka_cleanshutdown")); err == nil {
		t.Error("the mark is still there while the node runs: a kill would look like a clean stop")
	}
	n.Stop()
}

// TestDev: klamm server --dev formats an empty directory, says how to connect,
// and finds everything again after kill -9.
func TestDev(t *testing.T) {
	n := harness.StartDev(t)
	createTopic(t, n.Address, "greetings", 1)
	recs := make100k()[:1000]
	produceAll(t, n.Address, "greetings", recs)
	n.Kill()
	n.Restart()
	same(t, fromFranz(readAll(t, n.Address, "greetings", 0, len(recs))), recs)
	n.Stop()
	log := n.Log()
	if want := "bootstrap.servers=" + n.Address; !strings.Contains(log, want) || !strings.Contains(log, "kcat -b "+n.Address) {
		t.Errorf("the output does not say how to connect (%s):\n%s", want, clip(log))
	}
}

// TestMetadataDump: our own dump reads a directory and a checkpoint.
func TestMetadataDump(t *testing.T) {
	n := harness.Start(t)
	createTopic(t, n.Address, "dumped", 2)
	n.Stop()
	for _, args := range [][]string{
		{"metadata", "dump", n.Data()},
		{"metadata", "dump", "--json", n.Data()},
		{"metadata", "dump", n.Data("__cluster_metadata-0", "00000000000000000000.log")},
	} {
		if out := harness.MustRun(t, args...); !strings.Contains(out, "TOPIC_RECORD") || !strings.Contains(out, "dumped") {
			t.Errorf("klamm %s:\n%s", strings.Join(args, " "), clip(out))
		}
	}
	checkpoint := n.Data("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")
	if out := harness.MustRun(t, "metadata", "dump", checkpoint); !strings.Contains(out, "metadata.version") {
		t.Errorf("dump of the checkpoint:\n%s", out)
	}
	refuses(t, 1, []string{"metadata", "dump", n.Config()}, n.Config())
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
	metrics := "localhost:" + harness.FreePort(t)
	n := harness.New(t, "klamm.metrics.listener="+metrics)
	n.Launch()
	for state := 0.0; state != 3; {
		before := answers(n.Address)
		state = brokerState(metrics)
		if state >= 0 && state < 3 && before {
			t.Errorf("the client port accepts in state %v", state)
		}
	}
	n.Await()
	body := scrape(t, metrics)
	for _, want := range []string{"kafka_controller_kafkacontroller_activecontrollercount 1\n", "klamm_build_info{", "process_resident_memory_bytes "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, clip(body))
		}
	}
	n.Stop()
	if brokerState(metrics) >= 0 {
		t.Error("metrics are still served")
	}
	var states []string
	for line := range strings.Lines(n.Log()) {
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
	refuses(t, 2, []string{"server", n.Config(), "--override", "klamm.metrics.listener=nowhere"}, "klamm.metrics.listener", "HOST:PORT")
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
