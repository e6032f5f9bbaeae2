//go:build integration

package decisions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// world is a cluster, what its metadata log says, and what has been written down.
type world struct {
	*harness.Cluster
	t     *testing.T
	conns map[string]*client.Conn

	metadata string // the directory of the metadata log that is read
	read     int64  // bytes of it
	image    *metadata.Image
	fresh    []record.Entry // not yet written down
	names    map[string]string
	topic    map[protocol.UUID]string

	fenced map[protocol.NodeID]bool // as written down
	anyDir bool                     // directories are called after their brokers alone
	silent bool                     // the records of this part come in any order

	out strings.Builder
}

func newWorld(t *testing.T, c *harness.Cluster) *world {
	w := &world{
		t: t, Cluster: c, metadata: c.Node(1).Data(), conns: map[string]*client.Conn{}, image: metadata.Empty(),
		names: map[string]string{}, topic: map[protocol.UUID]string{}, fenced: map[protocol.NodeID]bool{},
	}
	for i, n := range c.Nodes {
		w.names[port(n.Address)] = fmt.Sprintf("<port of %d>", i+1)
		if n.Controller != "" {
			w.names[port(n.Controller)] = fmt.Sprintf("<controller port of %d>", i+1)
		}
	}
	t.Cleanup(func() {
		for _, conn := range w.conns {
			conn.Close()
		}
	})
	return w
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// broker and controller are where requests go.
func (w *world) broker(id int32) string     { return w.Node(id).Address }
func (w *world) controller(id int32) string { return w.Node(id).Controller }

// answerWithin bounds the wait for an answer: some requests Kafka never answers.
const answerWithin = 20 * time.Second

// newest asks in the newest version that both sides know.
const newest = -1

// send sends a request in a version.
func (w *world) send(to string, version int16, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	conn := w.conns[to]
	if conn == nil || conn.Err() != nil {
		var err error
		if conn, err = client.Dial(ctx, to, client.Config{ClientID: "decisions"}); err != nil {
			return nil, err
		}
		w.conns[to] = conn
	}
	if version == newest {
		return conn.Request(ctx, req)
	}
	req.SetVersion(version)
	return conn.RequestVersion(ctx, req)
}

// ask sends a request and writes down what it asks and what is answered.
func (w *world) ask(to, what string, req kmsg.Request) kmsg.Response {
	w.t.Helper()
	return w.askIn(newest, to, what, req)
}

func (w *world) askIn(version int16, to, what string, req kmsg.Request) kmsg.Response {
	w.t.Helper()
	listener := "broker"
	for _, n := range w.Nodes {
		if n.Controller == to {
			listener = "controller"
		}
	}
	if version != newest {
		what += fmt.Sprintf(" (v%d)", version)
	}
	fmt.Fprintf(&w.out, "%s at a %s: %s\n", kmsg.NameForKey(req.Key()), listener, what)
	resp, err := w.send(to, version, req)
	w.follow() // so that what was created has a name
	for deadline := time.Now().Add(patience); err == nil && !w.upToDate(resp) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		resp, err = w.send(to, version, req)
	}
	switch {
	case errors.Is(err, protocol.ErrUnsupportedVersion):
		w.out.WriteString("  not served\n")
	case errors.Is(err, context.DeadlineExceeded):
		w.out.WriteString("  no answer\n")
	case err != nil:
		w.t.Fatalf("%s, %s: %v", kmsg.NameForKey(req.Key()), what, err)
	default:
		w.out.WriteString(w.printed(req, resp))
	}
	return resp
}

// upToDate tells whether a broker describes partitions as the metadata log has them:
// it follows the log when it comes to it.
func (w *world) upToDate(resp kmsg.Response) bool {
	r, ok := resp.(*kmsg.DescribeTopicPartitionsResponse)
	if !ok {
		return true
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			now, ok := w.image.Partition(protocol.TopicPartition{Topic: *t.Topic, Partition: p.Partition})
			if !ok || p.LeaderID != int32(now.Leader) || p.LeaderEpoch != int32(now.LeaderEpoch) || !slices.Equal(p.ISR, protocol.Int32s(now.ISR)) ||
				!slices.Equal(p.EligibleLeaderReplicas, protocol.Int32s(now.ELR)) {
				return false
			}
		}
	}
	return true
}

// part begins a part of what is written down, and ends it with its records.
func (w *world) part(name string, do func()) {
	w.t.Helper()
	w.follow()
	_ = w.ordered(w.fresh)
	w.fresh = nil
	fmt.Fprintf(&w.out, "== %s\n", name)
	do()
	w.follow()
	if w.silent {
		w.silent, w.fresh = false, nil
	}
	if text := w.recordText(w.fresh); text != "" {
		fmt.Fprintf(&w.out, "records\n%s", text)
	}
	w.out.WriteString("\n")
	w.fresh = nil
}

// until waits until the metadata log says that something is so.
func (w *world) until(what string, so func(img *metadata.Image) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if w.follow(); so(w.image) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v not yet: %s, but\n%s%s", patience, what, w.out.String(), w.recordText(w.fresh))
		}
	}
}

// follow reads on in node 1's metadata log.
func (w *world) follow() {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.metadata, protocol.MetadataTopic+"-0", "00000000000000000000.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(w.read, io.SeekStart); err != nil {
		w.t.Fatal(err)
	}
	delta := metadata.NewDelta(w.image)
	end, epoch, at := w.image.Offset(), w.image.Epoch(), w.image.TimestampMs()
	for s := record.NewScanner(f); ; {
		b, err := s.Next()
		if err != nil {
			break // the end, or a batch that is being written
		}
		if err := record.Each(b, func(e record.Entry) error {
			if e.Record == nil {
				return nil
			}
			if _, idle := e.Record.(*record.NoOp); idle {
				return nil
			}
			w.fresh = append(w.fresh, e)
			w.name(e)
			return delta.Replay(e.Record)
		}); err != nil {
			w.t.Fatal(err)
		}
		w.read += int64(len(b))
		end, epoch, at = b.NextOffset()-1, protocol.ControllerEpoch(b.LeaderEpoch()), b.MaxTimestamp()
	}
	w.image = delta.Apply(end, epoch, at)
}

// isr tells whether these are in sync.
func isr(topic string, partition int32, want ...protocol.NodeID) func(*metadata.Image) bool {
	return func(img *metadata.Image) bool {
		p, ok := img.Partition(protocol.TopicPartition{Topic: topic, Partition: partition})
		return ok && slices.Equal(slices.Sorted(slices.Values(p.ISR)), want)
	}
}

// append has a partition's leader append a record.
func (w *world) append(leader int32, topic string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker(leader)), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("record")}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// fenced tells whether a broker is registered and fenced, or not fenced.
func fenced(id protocol.NodeID, want bool) func(*metadata.Image) bool {
	return func(img *metadata.Image) bool {
		b, ok := img.Broker(id)
		return ok && b.Fenced == want
	}
}

func all(conditions ...func(*metadata.Image) bool) func(*metadata.Image) bool {
	return func(img *metadata.Image) bool {
		return !slices.ContainsFunc(conditions, func(so func(*metadata.Image) bool) bool { return !so(img) })
	}
}

// inSync waits until every replica on a broker that is not fenced is in sync,
// where somebody leads.
func (w *world) inSync() {
	w.t.Helper()
	w.until("all in sync", func(img *metadata.Image) bool {
		for t := range img.Topics() {
			for p := range t.Partitions() {
				for _, id := range p.Replicas {
					if b, ok := img.Broker(id); ok && !b.Fenced && p.Leader != protocol.NoNode && !slices.Contains(p.ISR, id) {
						return false
					}
				}
			}
		}
		return true
	})
}
