//go:build integration

package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clusterID is any text that a cluster id may be.
const clusterID = "aW50ZWdyYXRpb24tdGVzdA"

// startTimeout bounds a start; a node is up in far less than a second, and a
// busy machine is given time.
const startTimeout = 60 * time.Second

func klammBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("KLAMM")
	if path == "" {
		path = "../bin/klamm"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no binary (make build): %v", err)
	}
	return path
}

// node is one klamm process and the directory that outlives it.
type node struct {
	t       *testing.T
	binary  string
	dir     string // holds server.properties, data and log
	address string // of the broker listener
	args    []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of the process, once done
}

// newNode formats a node with the given extra settings and does not start it.
func newNode(t *testing.T, settings ...string) *node {
	t.Helper()
	n := &node{t: t, binary: klammBinary(t), dir: t.TempDir()}
	n.address = "localhost:" + freePort(t)
	n.configure(freePort(t), settings...)
	n.args = []string{"server", n.config()}
	if out, err := n.run("storage", "format", "-t", clusterID, "-c", n.config()); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	return n
}

// startNode is a node that serves.
func startNode(t *testing.T, settings ...string) *node {
	t.Helper()
	n := newNode(t, settings...)
	n.start()
	return n
}

func (n *node) config() string { return filepath.Join(n.dir, "server.properties") }

func (n *node) data(elem ...string) string {
	return filepath.Join(append([]string{n.dir, "data"}, elem...)...)
}

func (n *node) configure(controllerPort string, settings ...string) {
	n.t.Helper()
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@localhost:" + controllerPort,
		"listeners=PLAINTEXT://" + n.address + ",CONTROLLER://localhost:" + controllerPort,
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + n.data(),
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}, settings...)
	if err := os.WriteFile(n.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// run runs the binary to its end and gives what it printed.
func (n *node) run(args ...string) (string, error) {
	out, err := exec.Command(n.binary, args...).CombinedOutput()
	return string(out), err
}

// start starts the process and waits until it answers.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.waitReady()
}

func (n *node) logPath() string { return filepath.Join(n.dir, "log") }

func (n *node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.binary, n.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	n.mu.Lock()
	first := n.cmd == nil
	n.cmd, n.done = cmd, done
	n.mu.Unlock()
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
		close(done)
	}()
	if first {
		n.t.Cleanup(func() {
			n.signal(syscall.SIGKILL)
			if n.t.Failed() {
				n.t.Logf("the end of the node's log:\n%s", tail(n.logPath(), 4000))
			}
		})
	}
}

func (n *node) waitReady() {
	n.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		select {
		case <-n.done:
			n.t.Fatalf("the node ended while it was started: %v\n%s", n.err, tail(n.logPath(), 4000))
		default:
		}
		if answers(n.address) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	n.t.Fatalf("no answer from %s after %s\n%s", n.address, startTimeout, tail(n.logPath(), 4000))
}

// signal sends a signal and waits for the end of the process.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	cmd, done := n.cmd, n.done
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	// An error means that it has ended already.
	_ = cmd.Process.Signal(s)
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		n.t.Errorf("%v has not ended the node after 30 s", s)
		_ = cmd.Process.Kill()
		<-done
	}
}

// kill is kill -9.
func (n *node) kill() { n.signal(syscall.SIGKILL) }

// stop is a clean stop, which must be one.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	if n.err != nil {
		n.t.Errorf("a stop by SIGTERM ended with %v\n%s", n.err, tail(n.logPath(), 4000))
	}
}

func (n *node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process.Pid
}

// apiVersions is a whole ApiVersions v0 request with correlation id 7.
var apiVersions = []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff}

// answers asks one real question.
func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	reply, err := roundTrip(conn, apiVersions, 5*time.Second)
	return err == nil && len(reply) > 4 && binary.BigEndian.Uint32(reply) == 7
}

// roundTrip writes bytes and reads one frame.
func roundTrip(conn net.Conn, request []byte, timeout time.Duration) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(conn, reply)
	return reply, err
}

// freePort gives a port that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func tail(path string, size int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > size {
		data = data[len(data)-size:]
	}
	return string(data)
}

// need finds a program that a test can not do without.
func need(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed, and this test shows what it does with klamm: %s", name, install)
	}
	return path
}

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
