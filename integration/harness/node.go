//go:build integration

package harness

import (
	"cmp"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout bounds a start; a node is up in far less than a second, Kafka's
// in some, several of them on a busy machine in a minute.
const startTimeout = 3 * time.Minute

// stopTimeout bounds the end of a process after a signal. Brokers that lead much hand
// it over first, which on a busy machine takes its time.
const stopTimeout = 2 * time.Minute

// ClusterID is what all nodes are formatted with.
const ClusterID = "aGFybmVzcy1vZi1jbGllbnRz"

// Node is one node, controller and broker or one of them, and the directory that
// outlives its process. One goroutine at a time may call its methods.
type Node struct {
	// Address is that of the broker's listener, Controller that of the
	// controller's; empty where the node has no such role.
	Address, Controller string
	// Kind is whose node it is; "" is as KLAMM_NODE says.
	Kind Kind

	t       *testing.T
	dir     string   // holds server.properties, data and log
	binary  string   // klamm, "" is Binary
	options []string // of storage format
	storage []string // the command line of the storage tool
	command []string // that of the node
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	err     error         // of the process, once done
}

// Kind is whose a node is.
type Kind string

// The kinds of nodes.
const (
	Klamm Kind = "klamm"
	Kafka Kind = "kafka"
)

// Start formats a directory, with the given lines of server.properties too, and
// starts a node on it. The process ends with the test.
func Start(t *testing.T, settings ...string) *Node {
	t.Helper()
	n := New(t, settings...)
	n.Restart()
	return n
}

// New is Start of a node that is not started yet.
func New(t *testing.T, settings ...string) *Node {
	t.Helper()
	n := Configured(t, "", settings...)
	n.Format()
	return n
}

// Configured is New of a node whose directory is not formatted yet.
func Configured(t *testing.T, kind Kind, settings ...string) *Node {
	t.Helper()
	n := single(t, kind, t.TempDir(), settings)
	n.endWithTest(1)
	return n
}

// single is a node that is a cluster, in a directory.
func single(t *testing.T, kind Kind, dir string, settings []string) *Node {
	t.Helper()
	ports := freePorts(t, 2)
	n := &Node{t: t, dir: dir, Kind: kind, Address: "localhost:" + ports[0], Controller: "localhost:" + ports[1]}
	n.configure(1, append([]string{
		"controller.quorum.voters=1@" + n.Controller,
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}, settings...))
	return n
}

// StartDev starts a node in development mode, which formats its directory itself.
func StartDev(t *testing.T) *Node {
	t.Helper()
	n := &Node{t: t, dir: t.TempDir(), Address: "localhost:" + FreePort(t)}
	n.command = []string{Binary(t), "server", "--dev", "--data", n.Data(), "--listen", n.Address}
	n.endWithTest(1)
	n.Restart()
	return n
}

// format configures the node and formats its directory.
func (n *Node) format(id int, settings []string) {
	n.t.Helper()
	n.configure(id, settings)
	n.endWithTest(id)
	n.Format(n.options...)
}

// configure writes the node's configuration, in which $NODE is its own directory.
func (n *Node) configure(id int, settings []string) {
	t := n.t
	t.Helper()
	var roles, listeners []string
	if n.Address != "" {
		roles, listeners = append(roles, "broker"), append(listeners, "PLAINTEXT://"+n.Address)
	}
	if n.Controller != "" {
		roles, listeners = append(roles, "controller"), append(listeners, "CONTROLLER://"+n.Controller)
	}
	lines := append([]string{
		"process.roles=" + strings.Join(roles, ","),
		"node.id=" + strconv.Itoa(id),
		"listeners=" + strings.Join(listeners, ","),
		"controller.listener.names=CONTROLLER",
	}, settings...)
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "log.dirs=") }) {
		lines = append(lines, "log.dirs="+n.Data())
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "$NODE", n.dir)
	}
	if err := os.WriteFile(n.Config(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.Become(n.Kind)
}

// Become has the next process on the directory of a stopped node be of a kind.
func (n *Node) Become(kind Kind) {
	t := n.t
	t.Helper()
	n.Kind = kind
	if kind == "" {
		kind = Kind(os.Getenv("KLAMM_NODE"))
	}
	switch kind {
	case "", Klamm:
		binary := cmp.Or(n.binary, Binary(t))
		n.storage = []string{binary, "storage"}
		n.command = []string{binary, "server", n.Config()}
	case Kafka:
		java := []string{"env", "KAFKA_HEAP=" + cmp.Or(os.Getenv("KAFKA_HEAP"), "512M"), KafkaTools(t), "java"}
		n.storage = append(slices.Clip(java), "kafka.tools.StorageTool")
		n.command = append(slices.Clip(java), "kafka.Kafka", n.Config())
	default:
		t.Fatalf("KLAMM_NODE=%s is neither klamm nor kafka", kind)
	}
}

// Use has the next process be of another binary of klamm.
func (n *Node) Use(binary string) {
	n.t.Helper()
	if i := slices.Index(n.command, cmp.Or(n.binary, Binary(n.t))); i >= 0 {
		n.command[i] = binary // what is before it enters the node's host
	}
	n.binary = binary
}

// endWithTest has the process end with the test, and shows its log where that fails.
func (n *Node) endWithTest(id int) {
	n.t.Cleanup(func() {
		n.Kill()
		if n.t.Failed() {
			n.t.Logf("the end of the log of node %d:\n%s", id, n.logTail())
		}
	})
}

// Format formats the node's directory, with options of the command, and gives what
// it prints.
func (n *Node) Format(options ...string) string {
	n.t.Helper()
	out, err := n.TryFormat(options...)
	if err != nil {
		n.t.Fatalf("format: %v\n%s", err, out)
	}
	return out
}

// TryFormat is Format that may fail.
func (n *Node) TryFormat(options ...string) (string, error) {
	args := slices.Concat(n.storage, []string{"format", "-t", ClusterID, "-c", n.Config()}, options)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	return string(out), err
}

// Binary is the klamm that the tests are about.
func Binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv("KLAMM"), filepath.Join(root(t), "bin", "klamm")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no binary (make build): %v", err)
	}
	return path
}

// Restart starts the process, again if there was one, and waits until its port
// takes connections, which it does once the node serves.
func (n *Node) Restart() {
	n.t.Helper()
	n.Launch()
	n.Await()
}

// Launch starts the process and waits for nothing: a node of a cluster does not
// serve before there are others.
func (n *Node) Launch() {
	n.t.Helper()
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.command[0], n.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		n.err = cmd.Wait()
		close(done)
	}()
}

// Await waits until the node's port takes connections.
func (n *Node) Await() {
	n.t.Helper()
	address := n.Address
	if address == "" {
		address = n.Controller
	}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-n.done:
			n.t.Fatalf("the node ended while it was started: %v\n%s", n.err, n.logTail())
		default:
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return
		}
	}
	n.t.Fatalf("%s takes no connections after %s\n%s", address, startTimeout, n.logTail())
}

// Refuses starts the process, which must end by itself with an error, and gives
// what it has written to its log since.
func (n *Node) Refuses(why string) string {
	n.t.Helper()
	before, err := os.ReadFile(n.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	n.Launch()
	select {
	case <-n.done:
	case <-time.After(startTimeout):
		n.Kill()
		n.t.Errorf("%s: the node was started", why)
		return ""
	}
	if n.err == nil {
		n.t.Errorf("%s: the node has ended as if all were well", why)
	}
	return n.Log()[len(before):]
}

// Kill is kill -9.
func (n *Node) Kill() {
	if n.cmd != nil {
		n.End(syscall.SIGKILL)
	}
}

// Signal sends the process a signal and waits for nothing: SIGSTOP, SIGCONT.
func (n *Node) Signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// Stop is a clean stop, which must be one.
func (n *Node) Stop() {
	n.t.Helper()
	n.End(syscall.SIGTERM)
	var exit *exec.ExitError
	if errors.As(n.err, &exit) && exit.ExitCode() == 128+int(syscall.SIGTERM) {
		return // how Java ends after its shutdown hooks
	}
	if n.err != nil {
		n.t.Errorf("a stop by SIGTERM ended with %v\n%s", n.err, n.logTail())
	}
}

// End sends a signal and waits for the end of the process.
func (n *Node) End(s syscall.Signal) {
	n.t.Helper()
	_ = n.cmd.Process.Signal(s) // an error: it has ended already
	select {
	case <-n.done:
	case <-time.After(stopTimeout):
		n.t.Errorf("%v has not ended the node after %s", s, stopTimeout)
		_ = n.cmd.Process.Kill()
		<-n.done
	}
}

// Data is the directory in which the node's logs are, or a file in it.
func (n *Node) Data(elem ...string) string {
	return filepath.Join(append([]string{n.dir, "data"}, elem...)...)
}

// Log is what the node has written to its log.
func (n *Node) Log() string {
	n.t.Helper()
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

func (n *Node) logPath() string { return filepath.Join(n.dir, "log") }

func (n *Node) logTail() string {
	text, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// FreePort is a port that nobody listens on now.
func FreePort(t *testing.T) string {
	t.Helper()
	return freePorts(t, 1)[0]
}

// given are the ports that this process has given out. A node that is down gets its
// own back, so nobody else may have it.
var given = struct {
	sync.Mutex
	ports map[string]bool
}{ports: make(map[string]bool)}

// freePorts gives ports that nobody listens on now, each once.
func freePorts(t *testing.T, count int) []string {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	var ports []string
	for len(ports) < count {
		listener, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if !given.ports[port] {
			given.ports[port] = true
			ports = append(ports, port)
		}
	}
	return ports
}
