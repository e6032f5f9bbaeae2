//go:build integration

package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Run runs a command of klamm's and gives what it prints; ok tells how it ended.
func Run(t *testing.T, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(Binary(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	return out.String(), errOut.String(), err == nil
}

// MustRun is Run of what does not fail.
func MustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, ok := Run(t, args...)
	if !ok {
		t.Fatalf("klamm %s failed:\n%s%s", strings.Join(args, " "), out, errOut)
	}
	return out
}

// Config is the node's server.properties.
func (n *Node) Config() string { return filepath.Join(n.dir, "server.properties") }

// Configure replaces lines of a stopped node's server.properties, by their keys.
func (n *Node) Configure(settings ...string) {
	n.t.Helper()
	text, err := os.ReadFile(n.Config())
	if err != nil {
		n.t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
		key, _, _ := strings.Cut(line, "=")
		return slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, key+"=") })
	})
	if err := os.WriteFile(n.Config(), []byte(strings.Join(append(lines, settings...), "\n")+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// Wipe replaces a stopped node's disk by an empty one, formatted for its cluster.
func (n *Node) Wipe() { n.wipe() }
