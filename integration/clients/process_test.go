//go:build integration

package clients

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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
	t    *testing.T
	end  func(*process) // asks it to leave
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  string        // where its standard error goes
	done chan struct{} // closed when it has ended and all of its output is read
	err  error         // of the process, once done
	once sync.Once
}

// start starts a program that prints a record a line.
func start(t *testing.T, m membership, parse func(line string) (record, bool), end func(*process), name string, args ...string) *process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "stderr")
	stderr, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd := exec.Command(name, args...)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, end: end, cmd: cmd, in: in, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if r, ok := parse(strings.TrimSuffix(line, "\n")); ok {
				m.took(r)
			} else {
				t.Errorf("%s printed %q", filepath.Base(name), line)
			}
		}
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		p.once.Do(func() {
			_ = cmd.Process.Kill()
			<-p.done
		})
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("standard error of %s:\n%s", clip(strings.Join(cmd.Args, " ")), clip(string(text)))
		}
	})
	return p
}

func (p *process) leave() {
	p.t.Helper()
	p.once.Do(func() {
		p.end(p)
		select {
		case <-p.done:
		case <-time.After(patience):
			p.t.Errorf("%s does not end", filepath.Base(p.cmd.Path))
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if p.err != nil && p.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) { // which is how Java ends in order
			p.t.Errorf("%s ended with %v", filepath.Base(p.cmd.Path), p.err)
		}
	})
}

// byTerm asks a program to leave as a terminal or a service manager would.
func byTerm(p *process) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// byInput asks it by the end of its input.
func byInput(p *process) { _ = p.in.Close() }
