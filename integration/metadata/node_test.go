//go:build integration

package metadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	metarecord "github.com/klamm/klamm/metadata/record"
	recordbatch "github.com/klamm/klamm/protocol/batch"
)

// patience bounds every wait: for an answer, a start, a state. Nothing takes
// nearly as long unless it is stuck.
const patience = 60 * time.Second

const clusterID = "bWV0YWRhdGEtcmVjb3Jkcw"

// kind is who is asked: klamm, or the Kafka that it is compared with.
type kind struct {
	binary         string
	format, server []string // arguments; the properties file follows
}

func klamm(t *testing.T) kind {
	t.Helper()
	path := os.Getenv("KLAMM")
	if path == "" {
		path = "../../bin/klamm"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no binary (make build): %v", err)
	}
	return kind{binary: path, format: []string{"storage", "format"}, server: []string{"server"}}
}

func kafka(t *testing.T) kind {
	t.Helper()
	return kind{
		binary: kafkaTools(t),
		format: []string{"java", "kafka.tools.StorageTool", "format"},
		server: []string{"java", "kafka.Kafka"},
	}
}

// kafkaTools is the launcher of Apache Kafka's tools and broker.
func kafkaTools(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KLAMM_KAFKA_TOOLS"); path != "" {
		return path
	}
	path, err := filepath.Abs("../kafkatools/kafka")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// node is a process and the directory that outlives it.
type node struct {
	t                  *testing.T
	kind               kind
	dir                string // holds server.properties, data and log
	settings           []string
	id                 int
	voters             string // controller.quorum.voters
	broker, controller string // ports
	cmd                *exec.Cmd
	done               chan struct{} // closed when the process has ended
	client             *kgo.Client
}

// newNode formats a node and does not start it.
func newNode(t *testing.T, k kind, release string, settings ...string) *node {
	t.Helper()
	n := bareNode(t, k, settings...)
	n.format(release)
	return n
}

// newCluster formats nodes that are one cluster and does not start them.
func newCluster(t *testing.T, k kind, count int, release string, settings ...string) []*node {
	t.Helper()
	var nodes []*node
	var voters []string
	for i := range count {
		n := bareNode(t, k, settings...)
		n.id = i + 1
		nodes = append(nodes, n)
		voters = append(voters, fmt.Sprintf("%d@localhost:%s", n.id, n.controller))
	}
	for _, n := range nodes {
		n.voters = strings.Join(voters, ",")
		n.configure()
		n.format(release)
	}
	return nodes
}

func (n *node) format(release string) {
	n.t.Helper()
	args := append(append([]string{}, n.kind.format...), "-t", clusterID, "-c", n.config())
	if release != "" {
		args = append(args, "--release-version", release)
	}
	run(n.t, n.kind.binary, args...)
}

// bareNode has a configuration and no directory yet.
func bareNode(t *testing.T, k kind, settings ...string) *node {
	t.Helper()
	n := &node{t: t, kind: k, dir: t.TempDir(), settings: settings, id: 1, broker: freePort(t), controller: freePort(t)}
	n.voters = "1@localhost:" + n.controller
	n.configure()
	t.Cleanup(func() {
		n.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the end of the node's log:\n%s", tail(filepath.Join(n.dir, "log")))
		}
	})
	return n
}

func (n *node) config() string { return filepath.Join(n.dir, "server.properties") }

func (n *node) data(elem ...string) string {
	return filepath.Join(append([]string{n.dir, "data"}, elem...)...)
}

func (n *node) metadata(elem ...string) string {
	return n.data(append([]string{"__cluster_metadata-0"}, elem...)...)
}

func (n *node) configure(more ...string) {
	n.t.Helper()
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=" + strconv.Itoa(n.id),
		"controller.quorum.voters=" + n.voters,
		"listeners=PLAINTEXT://localhost:" + n.broker + ",CONTROLLER://localhost:" + n.controller,
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + n.data(),
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=3",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}, append(n.settings, more...)...)
	if err := os.WriteFile(n.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// start starts the process and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.serve(1)
}

// launch starts the process.
func (n *node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.kind.binary, append(append([]string{}, n.kind.server...), n.config())...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	cmd.Env = append(os.Environ(), "KAFKA_HEAP=512M")
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	n.cmd, n.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

// serve waits until the process serves and so many brokers are there.
func (n *node) serve(brokers int) {
	n.t.Helper()
	n.wait("a connection", func() bool {
		select {
		case <-n.done:
			n.t.Fatal("the node ended while it was started")
		default:
		}
		conn, err := net.Dial("tcp", "localhost:"+n.broker)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	var err error
	n.client, err = kgo.NewClient(kgo.SeedBrokers("localhost:"+n.broker), kgo.RetryTimeout(patience))
	if err != nil {
		n.t.Fatal(err)
	}
	// Kafka's listener may be earlier than that the controller lets it lead.
	n.until("unfenced broker", kmsg.NewPtrMetadataRequest(), func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.MetadataResponse).Brokers) >= brokers
	})
}

// logEnd is the offset behind the last record of the metadata log.
func (n *node) logEnd() (end int64) {
	n.t.Helper()
	n.eachBatch(func(b recordbatch.Batch) { end = b.NextOffset() })
	return end
}

// logHas tells whether the metadata log has a record of a kind.
func (n *node) logHas(kind metarecord.Record) (has bool) {
	n.t.Helper()
	n.eachBatch(func(b recordbatch.Batch) {
		_ = metarecord.Each(b, func(e metarecord.Entry) error {
			has = has || reflect.TypeOf(e.Record) == reflect.TypeOf(kind)
			return nil
		})
	})
	return has
}

// eachBatch reads the metadata log as far as it is written by now.
func (n *node) eachBatch(do func(recordbatch.Batch)) {
	n.t.Helper()
	f, err := os.Open(n.metadata(firstSegment))
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	for s := metarecord.NewScanner(f); ; {
		b, err := s.Next()
		if err != nil {
			return
		}
		do(b)
	}
}

// end sends a signal and waits for the end of the process.
func (n *node) end(s syscall.Signal) {
	if n.cmd == nil {
		return
	}
	if n.client != nil {
		n.client.Close()
	}
	_ = n.cmd.Process.Signal(s) // an error: it has ended already
	select {
	case <-n.done:
	case <-time.After(patience):
		n.t.Errorf("%v has not ended the node after %s", s, patience)
		_ = n.cmd.Process.Kill()
		<-n.done
	}
	n.cmd = nil
}

func (n *node) stop() {
	n.t.Helper()
	n.end(syscall.SIGTERM)
}

// wait waits until something is so.
func (n *node) wait(what string, so func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.t.Fatalf("no %s after %s", what, patience)
		}
	}
}

// ask sends a request and fails on any error code in the answer.
func ask[R kmsg.Response](n *node, req kmsg.Request) R {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := n.client.Request(ctx, req)
	if err != nil {
		n.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	for _, code := range codes(resp) {
		if code != 0 {
			n.t.Fatalf("%s is answered with code %d: %+v", kmsg.NameForKey(req.Key()), code, resp)
		}
	}
	return resp.(R)
}

// run runs a program to its end and gives what it printed.
func run(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		t.Fatalf("%s %s: %v\n%s", filepath.Base(binary), strings.Join(args, " "), err, out)
	}
	return string(out)
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

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
