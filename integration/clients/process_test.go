//go:build integration

package clients

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klamm/klamm/integration/harness"
)

// run runs a program to its end and gives what it printed; a failure ends the
// test.
func run(t *testing.T, input io.Reader, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", clip(strings.Join(cmd.Args, " ")), err, clip(stdout.String()), clip(stderr.String()))
	}
	return stdout.String()
}

func clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}

// process is a member of a group that is a program.
type process struct {
	*harness.Process
	end func(*harness.Process, time.Duration)
}

// start starts a program that prints a record a line.
func start(t *testing.T, m membership, parse func(line string) (record, bool), end func(*harness.Process, time.Duration), name string, args ...string) *process {
	t.Helper()
	return &process{harness.StartProcess(t, filepath.Base(name), append([]string{name}, args...), func(line string) {
		if r, ok := parse(line); ok {
			m.took(r)
		} else {
			t.Errorf("%s printed %q", filepath.Base(name), line)
		}
	}), end}
}

func (p *process) leave() { p.end(p.Process, patience) }

// How a program is asked to leave.
var (
	byTerm  = (*harness.Process).Terminate
	byInput = (*harness.Process).End
)
