//go:build integration

package limits

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

var partitions = flag.Int("partitions", 300, "partitions of the cluster")

const (
	perTopic   = 10
	perRequest = 1000
)

// world is a cluster and what it used.
type world struct {
	*harness.World
	used  time.Duration // CPU of all nodes at the last step
	began time.Time
}

// newWorld is a world without a client, as there may be no brokers. It looks seldom:
// looks take CPU too, which is measured.
func newWorld(t *testing.T, c *harness.Cluster) *world {
	return &world{World: &harness.World{T: t, Cluster: c, Patience: 5 * time.Minute, Pause: 20 * time.Millisecond}}
}

// startThree is three combined nodes and a client.
func startThree(t *testing.T, settings ...string) *world {
	t.Helper()
	w := newWorld(t, harness.StartCluster(t, 3, append([]string{"auto.create.topics.enable=false"}, settings...)...))
	w.Client = w.NewClient(kgo.RequestRetries(20))
	return w
}

// step begins the next step.
func (w *world) step() {
	w.used, w.began = 0, time.Now()
	for _, n := range w.All() {
		w.used += n.Usage().CPU
	}
}

// report logs what the step took. living are its nodes.
func (w *world) report(what string, living ...*harness.Node) {
	w.T.Helper()
	took := time.Since(w.began)
	var cpu time.Duration
	var rss []string
	for _, n := range living {
		u := n.Usage()
		cpu += u.CPU
		rss = append(rss, fmt.Sprintf("%d (peak %d)", u.RSS>>20, u.Peak>>20))
	}
	w.T.Logf("%-70s %8.3f s, CPU %6.2f s, RSS in MiB %v", what, took.Seconds(), (cpu - w.used).Seconds(), rss)
}

func creation(replicas int16, from, to int) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 120_000
	for i := from; i < to; i += perTopic {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("many-%06d", i), int32(min(perTopic, to-i)), replicas
		req.Topics = append(req.Topics, t)
	}
	return req
}

func oneTopic(name string, replicas int16) *kmsg.CreateTopicsRequest {
	req := creation(replicas, 0, 1)
	req.Topics[0].Topic = name
	return req
}

// created may be called by any goroutine.
func (w *world) created(resp *kmsg.CreateTopicsResponse) {
	w.T.Helper()
	for _, r := range resp.Topics {
		if code := protocol.Error(r.ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
			w.T.Errorf("create %s: %v: %v", r.Topic, code, r.ErrorMessage)
		}
	}
}

// count returns how many partitions a broker knows of, and how many of them are as
// they should be.
func (w *world) count(at int32, good func(p *kmsg.MetadataResponseTopicPartition) bool) (all, right int) {
	w.T.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	resp, err := w.Client.Broker(int(at)).Request(w.Within(), req)
	if err != nil {
		return 0, 0 // it is on its way
	}
	for _, topic := range resp.(*kmsg.MetadataResponse).Topics {
		for i := range topic.Partitions {
			all++
			if good(&topic.Partitions[i]) {
				right++
			}
		}
	}
	return all, right
}

// awaitAll waits until brokers say of all partitions that they are led and in sync
// on all living.
func (w *world) awaitAll(want int, living ...int32) {
	w.T.Helper()
	last := ""
	defer func() {
		if w.T.Failed() {
			w.T.Log(last)
		}
	}()
	for _, at := range living {
		w.Await("all partitions led and in sync", func() bool {
			all, right := w.count(at, func(p *kmsg.MetadataResponseTopicPartition) bool {
				return len(p.ISR) == len(living) && slices.Contains(living, p.Leader)
			})
			last = fmt.Sprintf("broker %d: %d partitions, %d of them in sync, want %d", at, all, right, want)
			return all == want && right == want
		})
	}
}

// awaitLed waits until a broker says of all partitions that one of the living leads.
func (w *world) awaitLed(want int, at int32, living ...int32) {
	w.T.Helper()
	w.Await("all partitions led", func() bool {
		all, right := w.count(at, func(p *kmsg.MetadataResponseTopicPartition) bool { return slices.Contains(living, p.Leader) })
		return all >= want && right == all
	})
}

// giveBack has the preferred replicas of all partitions lead.
func (w *world) giveBack(at int32) {
	w.T.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 120_000
	resp := harness.AskAt[*kmsg.ElectLeadersResponse](w.World, at, req)
	if resp.ErrorCode != 0 {
		w.T.Fatalf("elect leaders: %v", protocol.Error(resp.ErrorCode))
	}
	w.Await("preferred leaders", func() bool {
		all, right := w.count(at, func(p *kmsg.MetadataResponseTopicPartition) bool { return p.Leader == p.Replicas[0] })
		return all > 0 && all == right
	})
}

// writes produces so many records to the partitions of one topic among the many, each
// acknowledged by all in sync before the next, and returns how long they took, sorted.
func (w *world) writes(n int) []time.Duration {
	w.T.Helper()
	client := w.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		r := &kgo.Record{Topic: "many-000000", Partition: int32(i % perTopic), Value: make([]byte, 1000)}
		if err := client.ProduceSync(w.Within(), r).FirstErr(); err != nil {
			w.T.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took
}

// Three combined nodes with many partitions of three replicas: they are created,
// the active controller's node dies, another broker dies, all stop and start.
func TestManyPartitions(t *testing.T) {
	w := startThree(t, "auto.leader.rebalance.enable=false", "offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=0")
	living := func(ids ...int32) (nodes []*harness.Node) {
		for _, id := range ids {
			nodes = append(nodes, w.Node(id))
		}
		return nodes
	}
	want := *partitions
	w.awaitAll(0, 1, 2, 3)

	w.step()
	for from := 0; from < want; from += perRequest {
		w.created(harness.AskAt[*kmsg.CreateTopicsResponse](w.World, 1, creation(3, from, min(from+perRequest, want))))
	}
	w.report("created, the last answer", w.Nodes...)
	w.awaitAll(want, 1, 2, 3)
	w.report("created, all led and in sync as all brokers say", w.Nodes...)

	time.Sleep(5 * time.Second)
	w.step()
	time.Sleep(10 * time.Second)
	w.report("idle", w.Nodes...)

	w.step()
	took := w.writes(200)
	w.report("200 acks=all writes, one after the other", w.Nodes...)
	t.Logf("acks=all writes: median %v, 90 %% %v", took[100], took[180])

	w.step()
	w.created(harness.AskAt[*kmsg.CreateTopicsResponse](w.World, 1, oneTopic("one", 3)))
	w.report("one topic created", w.Nodes...)
	want++

	for round, what := range []string{"active controller", "broker"} {
		victim := w.Controller()
		if what == "broker" {
			victim = victim%3 + 1
		}
		rest := w.Others(victim)
		w.awaitAll(want, 1, 2, 3)
		w.step()
		for _, n := range living(victim) {
			w.used -= n.Usage().CPU
			n.Kill()
		}
		killed := time.Now()
		w.began = killed
		done := make(chan time.Duration, 1)
		go func() { // it may meet the death of a controller
			defer close(done)
			resp, err := w.Client.Broker(int(rest[0])).RetriableRequest(w.Within(), oneTopic(fmt.Sprintf("without-%d", round), 3))
			if err != nil {
				t.Errorf("create without %d: %v", victim, err)
				return
			}
			w.created(resp.(*kmsg.CreateTopicsResponse))
			done <- time.Since(killed)
		}()
		w.awaitLed(want, rest[1], rest...)
		w.report(what+"'s node killed, all partitions led", living(rest...)...)
		w.awaitLed(want, rest[0], rest...)
		t.Logf("%s's node killed to the next acknowledged creation: %v", what, <-done)
		want++
		w.awaitAll(want, rest...)
		w.report(what+"'s node killed, out of all ISRs", living(rest...)...)
		w.Node(victim).Restart()
		w.began = time.Now()
		w.awaitAll(want, 1, 2, 3)
		w.report(what+"'s node started again, all in sync", w.Nodes...)
		w.step()
		w.giveBack(rest[0])
		w.report("preferred leaders elected, the answer", w.Nodes...)
	}

	began := time.Now()
	stopped := make(chan struct{}, 3)
	for _, n := range w.Nodes {
		go func() { n.Stop(); stopped <- struct{}{} }()
	}
	for range w.Nodes {
		<-stopped
	}
	t.Logf("clean stop of all at once: %v", time.Since(began))
	w.used, w.began = 0, time.Now()
	w.Restart()
	w.report("started, all listeners open", w.Nodes...)
	w.awaitAll(want, 1, 2, 3)
	w.report("started, all led and in sync", w.Nodes...)
}

// contextUntil is a context that ends with stop.
func contextUntil(stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
