//go:build integration

package faults

import (
	"errors"
	"fmt"
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

// patience bounds every wait: for an answer, a start, a state. Nothing takes
// nearly as long unless it is stuck.
var patience = 20 * time.Second

// kafka is the launcher of an Apache Kafka that the tests are about instead of
// klamm, if any.
var kafka = os.Getenv("KLAMM_FAULTS_KAFKA")

const clusterID = "ZmF1bHRzLW9mLW90aGVycw"

// node is one process and the directory that outlives it.
type node struct {
	dir        string
	broker     string // address of the broker listener
	controller string // address of the controller listener

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // what it ended with, once done
}

// shared is the node that the tests share; TestMain stops it.
var shared = sync.OnceValues(func() (*node, error) {
	dir, err := os.MkdirTemp("", "klamm-faults-")
	if err != nil {
		return nil, err
	}
	return newNode(dir)
})

func TestMain(m *testing.M) {
	if kafka != "" {
		patience *= 3 // it takes longer to start
	}
	code := m.Run()
	if n, err := shared(); err == nil && n.cmd != nil {
		n.kill()
		if code == 0 {
			_ = os.RemoveAll(n.dir)
		} else {
			fmt.Fprintf(os.Stderr, "the log of the node that the tests share: %s\n", n.logPath())
		}
	}
	os.Exit(code)
}

// sharedNode is the node that the tests share.
func sharedNode(t *testing.T) *node {
	t.Helper()
	n, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ownNode is a node for one test, with settings of its own.
func ownNode(t *testing.T, settings ...string) *node {
	t.Helper()
	n, err := newNode(t.TempDir(), settings...)
	if n != nil {
		t.Cleanup(func() {
			n.kill()
			if t.Failed() {
				t.Logf("the end of the node's log:\n%s", n.logTail())
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// program is a command line of klamm, or of Kafka that means the same.
func program(args ...string) *exec.Cmd {
	if kafka != "" {
		if args[0] == "server" {
			args = append([]string{"java", "kafka.Kafka"}, args[1:]...)
		}
		return exec.Command(kafka, args...)
	}
	binary := os.Getenv("KLAMM")
	if binary == "" {
		binary = "../../bin/klamm"
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		panic(err)
	}
	return exec.Command(binary, args...)
}

// newNode formats a node and starts it.
func newNode(dir string, settings ...string) (*node, error) {
	n, err := configure(dir, settings...)
	if err != nil {
		return nil, err
	}
	if out, err := n.format(); err != nil {
		return nil, fmt.Errorf("format (make build?): %w\n%s", err, out)
	}
	return n, n.start()
}

// configure writes a node's configuration. Groups form fast and lose members
// fast, so that the tests do not wait for what takes seconds by default.
func configure(dir string, settings ...string) (*node, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, broker: "localhost:" + ports[0], controller: "localhost:" + ports[1]}
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + n.controller,
		"listeners=PLAINTEXT://" + n.broker + ",CONTROLLER://" + n.controller,
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + filepath.Join(dir, "data"),
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=100",
	}, settings...)
	return n, os.WriteFile(n.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func (n *node) config() string { return filepath.Join(n.dir, "server.properties") }

// data is a file in the node's log directory.
func (n *node) data(elem ...string) string {
	return filepath.Join(append([]string{n.dir, "data"}, elem...)...)
}

func (n *node) format(args ...string) (string, error) {
	out, err := program(append([]string{"storage", "format", "-t", clusterID, "-c", n.config()}, args...)...).CombinedOutput()
	return string(out), err
}

func (n *node) logPath() string { return filepath.Join(n.dir, "log") }

func (n *node) logTail() string {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// launch starts the process.
func (n *node) launch() error {
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := program("server", n.config())
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		n.err = cmd.Wait()
		close(done)
	}()
	return nil
}

// start starts the process and waits until its port takes connections, which
// it does once the node serves.
func (n *node) start() error {
	if err := n.launch(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-n.done:
			return fmt.Errorf("the node ended while it was started: %w\n%s", n.err, n.logTail())
		default:
		}
		if conn, err := net.Dial("tcp", n.broker); err == nil {
			return conn.Close()
		}
	}
	return errors.New("the node does not take connections\n" + n.logTail())
}

// end sends a signal and waits for the end of the process.
func (n *node) end(s syscall.Signal) {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Signal(s) // an error: it has ended already
	select {
	case <-n.done:
	case <-time.After(patience):
		_ = n.cmd.Process.Kill()
		<-n.done
	}
}

func (n *node) kill() { n.end(syscall.SIGKILL) }

// restart ends the process by a signal and starts another one. Connections to
// the node are gone.
func (n *node) restart(t *testing.T, s syscall.Signal) {
	t.Helper()
	n.end(s)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// refuses starts the process, which must end by itself with an error, and gives
// what it has written to its log since.
func (n *node) refuses(t *testing.T, why string) string {
	t.Helper()
	before, err := os.ReadFile(n.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := n.launch(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.done:
	case <-time.After(patience):
		n.kill()
		t.Errorf("%s: the node was started", why)
		return ""
	}
	if n.err == nil {
		t.Errorf("%s: the node has ended as if all were well", why)
	}
	after, err := os.ReadFile(n.logPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(after[len(before):])
}

// freePorts gives ports that nobody listens on now.
func freePorts(count int) ([]string, error) {
	var ports []string
	for range count {
		listener, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
