//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// output runs a program to its end, with the given input, and fails if it does.
func output(t *testing.T, input []byte, name string, args ...string) string {
	t.Helper()
	out, err := tryOutput(input, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryOutput(input []byte, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, clip(stdout.String()), clip(stderr.String()))
	}
	return stdout.String(), err
}

func clip(s string) string {
	if len(s) > 4000 {
		return "…" + s[len(s)-4000:]
	}
	return s
}
