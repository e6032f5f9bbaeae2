//go:build integration

package rolling

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var suite = flag.Bool("suite", false, "run franz-go's own tests too")

const franz = "github.com/twmb/franz-go/pkg/kgo"

// What franz-go's tests try that klamm does not have yet: transactions, SASL, and
// groups of the newer protocols, of which those of KIP-848 leave themselves out.
const notYet = "TestTxnEtl|SCRAM|OAuth|ShareGroup"

// groups are the tests that take it for a failure when a group's member tells the
// application that a port refused, before it tries the next broker by itself, as
// franz-go 1.22 does after some requests.
const groups = "TestGroupETL|TestGroupSimple"

// franz-go's own tests, with three replicas, pass while one node after the other is
// restarted; those of groups while none is.
func TestFranzSuite(t *testing.T) {
	if !*suite {
		t.Skip("takes minutes: -suite")
	}
	w := start(t)
	binary := filepath.Join(t.TempDir(), "kgo.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, franz).CombinedOutput(); err != nil {
		t.Fatalf("build franz-go's tests: %v\n%s", err, out)
	}
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", franz).Output() // where they find their files
	if err != nil {
		t.Fatal(err)
	}
	run := func(what ...string) error {
		cmd := exec.Command(binary, append([]string{"-test.v", "-test.timeout", "10m"}, what...)...)
		cmd.Dir = strings.TrimSpace(string(dir))
		cmd.Env = append(os.Environ(), "KGO_SEEDS="+strings.Join(w.Bootstrap(), ","), "KGO_TEST_RF=3", "KGO_TEST_RECORDS=100000", "KGO_LOG_LEVEL=none")
		out, err := cmd.CombinedOutput()
		passed := strings.Count(string(out), "--- PASS: Test")
		t.Logf("%v: %d tests and parts of tests passed", what, passed)
		if err != nil {
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "_test.go:") && !strings.Contains(line, ": deleting ") || strings.Contains(line, "--- FAIL") {
					t.Log(strings.TrimSpace(line))
				}
			}
		}
		return err
	}
	if err := run("-test.run", groups); err != nil {
		t.Errorf("franz-go's tests of groups: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- run("-test.skip", notYet+"|"+groups) }()
	restarts := 0
	for id := int32(1); ; id = id%3 + 1 {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("franz-go's tests: %v", err)
			}
			t.Logf("%d restarts meanwhile", restarts)
			return
		case <-time.After(2 * time.Second): // of all nodes
		}
		w.AwaitCanStop(id)
		w.Node(id).Stop()
		w.Node(id).Restart()
		restarts++
	}
}
