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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	metarecord "github.com/klamm/klamm/metadata/record"
	recordbatch "github.com/klamm/klamm/protocol/batch"
)

// patience bounds every wait: for an answer, a start, a state. Nothing takes
// nearly as long unless it is stuck.
const patience = 60 * time.Second

// nodeSettings are those of all nodes.
var nodeSettings = []string{
	"offsets.topic.replication.factor=1",
	"offsets.topic.num.partitions=3",
	"transaction.state.log.replication.factor=1",
	"transaction.state.log.min.isr=1",
	"share.coordinator.state.topic.replication.factor=1",
	"share.coordinator.state.topic.min.isr=1",
	"group.initial.rebalance.delay.ms=0",
}

// node is a node and a client of its.
type node struct {
	*harness.Node
	t      *testing.T
	client *kgo.Client
}

// newNode formats a node and does not start it.
func newNode(t *testing.T, kind harness.Kind, release string, settings ...string) *node {
	t.Helper()
	n := bareNode(t, kind, settings...)
	n.format(release)
	return n
}

// newCluster formats nodes that are one cluster and does not start them.
func newCluster(t *testing.T, kind harness.Kind, count int, release string, settings ...string) []*node {
	t.Helper()
	var nodes []*node
	for _, of := range harness.ConfiguredCluster(t, kind, count, slices.Concat(nodeSettings, settings)...).Nodes {
		n := &node{Node: of, t: t}
		n.format(release)
		nodes = append(nodes, n)
	}
	return nodes
}

// bareNode has a configuration and no directory yet.
func bareNode(t *testing.T, kind harness.Kind, settings ...string) *node {
	t.Helper()
	return &node{Node: harness.Configured(t, kind, slices.Concat(nodeSettings, settings)...), t: t}
}

func (n *node) format(release string) {
	n.t.Helper()
	var options []string
	if release != "" {
		options = []string{"--release-version", release}
	}
	n.Format(options...)
}

func (n *node) metadata(elem ...string) string {
	return n.Data(append([]string{"__cluster_metadata-0"}, elem...)...)
}

// start starts the process and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	n.Launch()
	n.serve(1)
}

// serve waits until the process serves and so many brokers are there.
func (n *node) serve(brokers int) {
	n.t.Helper()
	n.Await()
	var err error
	n.client, err = kgo.NewClient(kgo.SeedBrokers(n.Address), kgo.RetryTimeout(patience))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.client.Close)
	// Kafka's listener may be earlier than that the controller lets it lead.
	n.until("unfenced broker", kmsg.NewPtrMetadataRequest(), func(resp kmsg.Response) bool {
		return len(resp.(*kmsg.MetadataResponse).Brokers) >= brokers
	})
}

// end closes the client, sends a signal and waits for the end of the process.
func (n *node) end(s syscall.Signal) {
	n.t.Helper()
	n.client.Close()
	n.End(s)
}

func (n *node) stop() {
	n.t.Helper()
	n.end(syscall.SIGTERM)
}

// port is that of an address.
func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
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
