package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/config/properties"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// world is a whole node in this process.
type world struct {
	broker, controller string // addresses
	ended              chan error

	mu     sync.Mutex
	errors []string // lines of its log at error and above
}

// startWorld runs a node on a fresh directory until the test ends.
func startWorld(t testing.TB, settings ...string) *world {
	t.Helper()
	ports := freePorts(t, 2)
	w := &world{broker: "127.0.0.1:" + ports[0], controller: "127.0.0.1:" + ports[1], ended: make(chan error, 1)}
	dir := filepath.Join(t.TempDir(), "data")
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + w.controller,
		"listeners=PLAINTEXT://" + w.broker + ",CONTROLLER://" + w.controller,
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + dir,
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=3",
		"num.partitions=1",
		"group.initial.rebalance.delay.ms=0",
	}, settings...)
	w.start(t, 1, dir, lines)
	w.awaitPort(t)
	return w
}

// start formats a directory and runs a node on it until the test ends.
func (w *world) start(t testing.TB, id protocol.NodeID, dir string, lines []string) {
	t.Helper()
	props, err := properties.Parse(strings.NewReader(strings.Join(lines, "\n")))
	check(t, err)
	cfg, err := config.Parse("test", props)
	check(t, err)
	metadata := filepath.Join(dir, protocol.MetadataTopic+"-0")
	check(t, os.MkdirAll(metadata, 0o755))
	check(t, snapshot.WriteBootstrap(vfs.OS(), metadata, 0, snapshot.Quorum{}, testFeatures()))
	meta := storage.MetaProperties{ClusterID: "test", NodeID: id, DirectoryID: protocol.NewUUID()}
	check(t, storage.Format(vfs.OS(), dir, meta, time.Now()))

	ctx, cancel := context.WithCancel(context.Background())
	go func() { w.ended <- Run(ctx, cfg, "", zerolog.New(w).Level(zerolog.ErrorLevel)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
	})
}

func testFeatures() []record.Record {
	return []record.Record{
		&record.FeatureLevel{Name: "metadata.version", Level: 33},
		&record.FeatureLevel{Name: "eligible.leader.replicas.version", Level: 1},
		&record.FeatureLevel{Name: "group.version", Level: 1},
		&record.FeatureLevel{Name: "transaction.version", Level: 2},
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func freePorts(t testing.TB, n int) (ports []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer ln.Close()
		ports = append(ports, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// Write takes the node's log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, string(line))
	return len(line), nil
}

// takeErrors returns what was logged since the last call.
func (w *world) takeErrors() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.errors
	w.errors = nil
	return lines
}

func (w *world) awaitPort(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if nc, err := net.Dial("tcp", w.broker); err == nil {
			_ = nc.Close()
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
		select {
		case err := <-w.ended:
			t.Fatalf("the node ended: %v", err)
		default:
		}
	}
}

func (w *world) address(kind protocol.ListenerKind) string {
	if kind == protocol.ControllerListener {
		return w.controller
	}
	return w.broker
}

// frame puts size and header before a body.
func frame(key, version int16, id int32, body []byte) []byte {
	out := []byte{0, 0, 0, 0}
	out = binary.BigEndian.AppendUint16(out, uint16(key))
	out = binary.BigEndian.AppendUint16(out, uint16(version))
	out = binary.BigEndian.AppendUint32(out, uint32(id))
	out = append(out, 0, 4, 't', 'e', 's', 't') // the client's id
	if info, ok := protocol.API(key); ok && info.IsFlexible(version) {
		out = append(out, 0) // no tags
	}
	out = append(out, body...)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// readFrame reads one answer with its header.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, answer)
	return answer, err
}

// body is what stands behind the header of an answer.
func body(key, version int16, answer []byte) ([]byte, error) {
	info, _ := protocol.API(key)
	head := 4
	if info.IsFlexible(version) && key != protocol.KeyAPIVersions {
		head++ // no tags
	}
	if len(answer) < head || head == 5 && answer[4] != 0 {
		return nil, fmt.Errorf("no header in an answer of %d bytes", len(answer))
	}
	return answer[head:], nil
}

// ask sends a request on a connection of its own and returns the answer.
func (w *world) ask(t testing.TB, kind protocol.ListenerKind, req kmsg.Request) kmsg.Response {
	t.Helper()
	nc, err := net.Dial("tcp", w.address(kind))
	check(t, err)
	defer nc.Close()
	check(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	_, err = nc.Write(frame(req.Key(), req.GetVersion(), 1, req.AppendTo(nil)))
	check(t, err)
	answer, err := readFrame(nc)
	check(t, err)
	rest, err := body(req.Key(), req.GetVersion(), answer)
	check(t, err)
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	check(t, resp.ReadFrom(rest))
	return resp
}

// topic returns the id of a topic of one partition, created if it is not there.
func (w *world) topic(t testing.TB, name string, configs ...string) protocol.UUID {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	created := w.ask(t, protocol.BrokerListener, req).(*kmsg.CreateTopicsResponse).Topics[0]
	switch protocol.Error(created.ErrorCode) {
	case protocol.None:
		return created.TopicID
	case protocol.ErrTopicAlreadyExists:
		for _, known := range w.topics(t) {
			if *known.Topic == name {
				return known.TopicID
			}
		}
	}
	t.Fatalf("create %s: error %d", name, created.ErrorCode)
	return protocol.UUID{}
}

func (w *world) topics(t testing.TB) []kmsg.MetadataResponseTopic {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	return w.ask(t, protocol.BrokerListener, req).(*kmsg.MetadataResponse).Topics
}
