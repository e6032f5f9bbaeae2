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
const patience = 20 * time.Second

const clusterID = "ZmF1bHRzLW9mLW90aGVycw"

// node is one klamm process and the directory that outlives it.
type node struct {
	binary, dir string
	broker      string // address of the broker listener
	controller  string // address of the controller listener

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// shared is the node that the tests share; TestMain stops it.
var shared = sync.OnceValues(func() (*node, error) {
	if at := os.Getenv("KLAMM_FAULTS_AT"); at != "" {
		broker, controller, ok := strings.Cut(at, ",")
		if !ok {
			return nil, fmt.Errorf("KLAMM_FAULTS_AT=%s is not BROKER,CONTROLLER", at)
		}
		return &node{broker: broker, controller: controller}, nil
	}
	dir, err := os.MkdirTemp("", "klamm-faults-")
	if err != nil {
		return nil, err
	}
	return newNode(dir)
})

func TestMain(m *testing.M) {
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
	if os.Getenv("KLAMM_FAULTS_AT") != "" {
		t.Skip("needs a node of its own")
	}
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

// newNode formats a node and starts it. Groups form fast and lose members
// fast, so that the tests do not wait for what takes seconds by default.
func newNode(dir string, settings ...string) (*node, error) {
	binary := os.Getenv("KLAMM")
	if binary == "" {
		binary = "../../bin/klamm"
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	n := &node{binary: binary, dir: dir, broker: "localhost:" + ports[0], controller: "localhost:" + ports[1]}
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
	config := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command(binary, "storage", "format", "-t", clusterID, "-c", config).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format (make build?): %w\n%s", err, out)
	}
	return n, n.start()
}

func (n *node) logPath() string { return filepath.Join(n.dir, "log") }

func (n *node) logTail() string {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// start starts the process and waits until its port takes connections, which
// it does once the node serves.
func (n *node) start() error {
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.binary, "server", filepath.Join(n.dir, "server.properties"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-done:
			return fmt.Errorf("the node ended while it was started\n%s", n.logTail())
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
