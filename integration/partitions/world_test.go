//go:build integration

package partitions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

func TestMain(m *testing.M) { harness.WithNetwork(m) }

// world is three combined nodes on hosts of their own, and a load on them.
type world struct {
	*harness.World
	net  *harness.Network
	load *load
}

// The session is short, as much here waits for its end.
const session = 3 * time.Second

func start(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	cluster, network := harness.StartHosts(t, 3,
		"auto.create.topics.enable=false",
		fmt.Sprintf("broker.session.timeout.ms=%d", session.Milliseconds()),
		"broker.heartbeat.interval.ms=500",
		"replica.lag.time.max.ms=2000",
	)
	w := &world{net: network}
	// A leader that is cut off takes a record and waits for the others as long as
	// the client lets it. Values are found in the bytes of an answer.
	w.World = harness.NewWorld(t, cluster, kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	w.Create(loaded, loadedPartitions)
	w.AwaitISR(loaded, 1, 2, 3)
	w.load = w.startLoad()
	return w
}

// whole waits until the cluster is whole again, and then compares what is there
// with what was acknowledged, and the nodes with each other. No more than so many
// elections may have come after those before.
func (w *world) whole(before []int, most int) {
	w.T.Helper()
	began := time.Now()
	w.net.Heal()
	w.AwaitISR(loaded, 1, 2, 3)
	w.T.Logf("all in sync again after %v", time.Since(began).Round(time.Millisecond))
	w.load.stop()
	got := w.Consume(loaded, len(w.load.acked))
	slices.Sort(w.load.acked)
	if !slices.Equal(got, w.load.acked) {
		w.T.Errorf("%s has not what was acknowledged, each once: %d records for %d", loaded, len(got), len(w.load.acked))
	}
	if n := w.Count(loaded); n != int64(len(got)) {
		w.T.Errorf("%s has %d records, %d were acknowledged, each once", loaded, n, len(got))
	}
	for _, topic := range w.load.topics {
		w.AwaitISR(topic, 1, 2, 3)
	}
	w.T.Logf("%d records and %d topics acknowledged", len(got), len(w.load.topics))
	w.sameMetadata()
	w.mostElections(before, most)
	w.SameLogs(append([]string{loaded}, w.load.topics...)...)
}

// sameMetadata waits until the nodes' metadata is the same, which it soon must
// be when nothing changes it any more.
func (w *world) sameMetadata() {
	w.T.Helper()
	w.Await("equal digests", func() bool {
		digests := make(map[string]bool)
		for _, n := range w.Nodes {
			digests[harness.MustRun(w.T, "metadata", "digest", n.Data())] = true
		}
		return len(digests) == 1
	})
}

var elected = regexp.MustCompile(`"epoch":(\d+),.*"message":"elected controller"`)

// elections are the controller epochs that there were; each must have had one
// controller.
func (w *world) elections() (epochs []int) {
	w.T.Helper()
	for i, n := range w.Nodes {
		last := 0
		for _, m := range elected.FindAllStringSubmatch(n.Log(), -1) {
			epoch, err := strconv.Atoi(m[1])
			if err != nil {
				w.T.Fatal(err)
			}
			if slices.Contains(epochs, epoch) {
				w.T.Errorf("controller epoch %d had two controllers, node %d was one", epoch, i+1)
			}
			if epoch <= last {
				w.T.Errorf("node %d had controller epoch %d after %d", i+1, epoch, last)
			}
			last = epoch
			epochs = append(epochs, epoch)
		}
	}
	slices.Sort(epochs)
	return epochs
}

// mostElections fails where more than so many elections came after those that
// there were, or many that were in vain, which take an epoch too.
func (w *world) mostElections(before []int, most int) {
	w.T.Helper()
	now := w.elections()
	if len(now)-len(before) > most || now[len(now)-1]-before[len(before)-1] > 5*most {
		w.T.Errorf("controller epochs %v, then %v: more than %d new", before, now, most)
	}
}

// place creates a topic with one partition, whose first replica leads.
func (w *world) place(topic string, replicas ...int32) {
	w.T.Helper()
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	req := creation(topic)
	req.Topics[0].NumPartitions, req.Topics[0].ReplicationFactor = -1, -1
	req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
	if code := codeOf(harness.Ask[*kmsg.CreateTopicsResponse](w.World, req)); code != protocol.None {
		w.T.Fatalf("create %s: %v", topic, code)
	}
	w.AwaitISR(topic, replicas...)
}

func creation(topic string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 1_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 3
	req.Topics = append(req.Topics, t)
	return req
}

func codeOf(resp *kmsg.CreateTopicsResponse) protocol.Error {
	return protocol.Error(resp.Topics[0].ErrorCode)
}

// only is a client that reaches one node and no other.
func (w *world) only(id int32, opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	address := w.Node(id).Address
	return w.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.DisableIdempotentWrite(), // such a record may be given up
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			if host != address {
				return nil, errors.New("a node that this client does not reach")
			}
			return new(net.Dialer).DialContext(ctx, network, host)
		}),
	}, opts...)...)
}

// The topic that is written all the time.
const (
	loaded           = "loaded"
	loadedPartitions = 6
)

// load is a client that writes with acks=all, and one that creates topics; both
// go on until they are told to stop, and give nothing up.
type load struct {
	stop func()

	mu     sync.Mutex
	acked  []string
	topics []string
}

func (w *world) startLoad() *load {
	w.T.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	writer := w.NewClient(kgo.DefaultProduceTopic(loaded))
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			value := fmt.Sprintf("%06d", i)
			writer.Produce(context.Background(), kgo.StringRecord(value), func(_ *kgo.Record, err error) {
				if err != nil {
					w.T.Errorf("record %s: %v", value, err)
					return
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				l.acked = append(l.acked, value)
			})
			pause(ctx, 5*time.Millisecond)
		}
		if err := writer.Flush(w.Within()); err != nil {
			w.T.Errorf("the last records were not acknowledged: %v", err)
		}
	})
	creator := w.NewClient()
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			topic := fmt.Sprintf("topic-%03d", i)
			// Each broker takes it, and one that hears nobody keeps the client waiting.
			for asked, last := i, time.Now().Add(time.Minute); ; asked++ {
				resp, err := creator.Broker(asked%len(w.Nodes)+1).Request(w.Within(), creation(topic))
				code := protocol.ErrUnknownServerError
				if err == nil {
					code = codeOf(resp.(*kmsg.CreateTopicsResponse))
				}
				// It may find an attempt of its own.
				if code == protocol.None || code == protocol.ErrTopicAlreadyExists {
					break
				}
				if time.Now().After(last) {
					w.T.Errorf("create %s: %v, %v", topic, err, code)
					return
				}
				pause(ctx, 100*time.Millisecond)
			}
			l.mu.Lock()
			l.topics = append(l.topics, topic)
			l.mu.Unlock()
			pause(ctx, 300*time.Millisecond)
		}
	})
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	w.T.Cleanup(l.stop)
	return l
}

// count is how many records and topics have been acknowledged.
func (l *load) count() (records, topics int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), len(l.topics)
}

// goesOn waits until records and a topic are acknowledged that were not when it
// was called.
func (w *world) goesOn() {
	w.T.Helper()
	began := time.Now()
	records, topics := w.load.count()
	w.Await("more records and topics", func() bool {
		r, t := w.load.count()
		return r > records+100 && t > topics+1
	})
	w.T.Logf("the load goes on after %v", time.Since(began).Round(time.Millisecond))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
