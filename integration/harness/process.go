//go:build integration

package harness

import (
	"bufio"
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

// Process is a client that is a program: it prints what it does, a line each.
type Process struct {
	// In is its standard input.
	In io.WriteCloser

	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and all of its output is read
	err  error         // of the process, once done
	once sync.Once     // ends it
}

// StartProcess starts a program, whose lines are heard on one goroutine. It is killed
// with the test, and what it wrote to standard error is shown where that fails.
func StartProcess(t *testing.T, name string, words []string, heard func(line string)) *Process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = log
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
	p := &Process{In: in, t: t, name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			heard(strings.TrimSuffix(line, "\n"))
		}
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		p.once.Do(func() {
			_ = cmd.Process.Kill() // an error: it has ended already
			<-p.done
		})
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("standard error of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// End asks the program to end by the end of its input, and waits until it has, for so
// long. It must end without an error.
func (p *Process) End(patience time.Duration) {
	p.t.Helper()
	p.end(patience, func() { _ = p.In.Close() })
}

// Terminate is End by a signal, as a terminal or a service manager sends it.
func (p *Process) Terminate(patience time.Duration) {
	p.t.Helper()
	p.end(patience, func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) })
}

func (p *Process) end(patience time.Duration, ask func()) {
	p.t.Helper()
	p.once.Do(func() {
		ask()
		select {
		case <-p.done:
		case <-time.After(patience):
			p.t.Errorf("%s does not end", p.name)
			_ = p.cmd.Process.Kill()
			<-p.done
			return
		}
		if p.err != nil && p.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) { // which is how Java ends in order
			p.t.Errorf("%s ended with %v", p.name, p.err)
		}
	})
}
