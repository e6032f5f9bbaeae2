//go:build integration

package rolling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// What is between the high watermark and the end is not out of range, and not to be
// seen either (B026 of package faults).
func TestBetweenHighWatermarkAndEnd(t *testing.T) {
	w := start(t, "min.insync.replicas=1", "broker.session.timeout.ms=600000", "replica.lag.time.max.ms=600000")
	// The follower stands still; the active controller does not, which knows what is
	// out of range.
	leader := w.Controller()
	follower := leader%3 + 1
	w.CreateOn("t", []int32{leader, follower})
	w.AwaitISR("t", leader, follower)
	w.Node(follower).Signal(syscall.SIGSTOP)
	// Clients that do not know of the follower do not wait for it.
	acksOne := w.NewClient(kgo.SeedBrokers(w.Node(leader).Address), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	for i := range 5 {
		if err := acksOne.ProduceSync(w.Within(), &kgo.Record{Topic: "t", Value: []byte{byte(i)}}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for offset, want := range map[int64]protocol.Error{0: 0, 3: 0, 5: 0, 6: protocol.ErrOffsetOutOfRange, -1: protocol.ErrOffsetOutOfRange} {
		p := w.fetch(leader, 12, offset, -1, "")
		if code := protocol.Error(p.ErrorCode); code != want || len(p.RecordBatches) > 0 || want == 0 && p.HighWatermark != 0 {
			t.Errorf("a fetch at %d: %v, %d bytes, high watermark %d", offset, code, len(p.RecordBatches), p.HighWatermark)
		}
	}
	w.Node(follower).Signal(syscall.SIGCONT)
	w.Await("the follower to have them", func() bool { return len(w.fetch(leader, 12, 0, -1, "").RecordBatches) > 0 })
}

// Leaderships go round, and a node stands still for so long that it leaves the
// in-sync sets. Whoever is asked meanwhile, by an old or a new version: what was
// acknowledged is never out of range, and the topic is never unknown. A consumer that
// has nowhere to begin anew reads on (B027 of package faults).
func TestNeverOutOfRange(t *testing.T) {
	const partitions = 6
	w := start(t, "replica.lag.time.max.ms=1000", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
	w.Create("t", partitions)
	w.AwaitISR("t", 1, 2, 3)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer running.Wait()
	defer stop()

	acked := &ends{}
	// These do not wait for the node that stands still longer than they have to.
	impatient := []kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second)}
	producer := w.NewClient(append(impatient, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: []byte(fmt.Sprint(i))}
			if err := producer.ProduceSync(w.Within(), r).FirstErr(); err != nil {
				t.Errorf("record %d: %v", i, err)
				return
			}
			acked.raise(r.Partition, r.Offset+1)
		}
	})
	from := make(map[int32]kgo.Offset)
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	consumer := w.NewClient(append(impatient, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	read := &ends{}
	running.Go(func() {
		for {
			fetches := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			fetches.EachError(func(_ string, p int32, err error) { t.Errorf("the consumer, partition %d: %v", p, err) })
			fetches.EachRecord(func(r *kgo.Record) {
				if next := read.of(r.Partition); r.Offset != next {
					t.Errorf("partition %d is read on at %d, not at %d", r.Partition, r.Offset, next)
				}
				read.raise(r.Partition, r.Offset+1)
			})
		}
	})
	topicID := w.described(1, harness.MetadataRequest("t")).TopicID
	answers := make([]int, 3)
	for _, id := range []int32{1, 2, 3} {
		for _, version := range []int16{10, 17} {
			// What a node is asked while it stands still it answers when it goes on.
			client := w.NewClient(kgo.MaxVersions(fetchVersion(version)), kgo.RequestTimeoutOverhead(w.Patience))
			running.Go(func() {
				n := w.ask(ctx, client, id, topicID, partitions, acked)
				w.mu.Lock()
				answers[id-1] += n
				w.mu.Unlock()
			})
		}
	}
	w.Await("records", func() bool { return acked.sum() > 100 })
	for round := range 12 {
		w.rotate("t", partitions, round)
		if round == 5 {
			still := w.Controller()%3 + 1
			w.Node(still).Signal(syscall.SIGSTOP)
			w.AwaitISR("t", w.Others(still)...)
			before := acked.sum()
			w.Await("records without it", func() bool { return acked.sum() > before+100 })
			w.Node(still).Signal(syscall.SIGCONT)
			w.AwaitISR("t", 1, 2, 3)
		}
	}
	w.Await("the consumer to have it all", func() bool { return read.sum() >= acked.sum() })
	stop()
	running.Wait()
	t.Logf("%d records, %v answers of the nodes", acked.sum(), answers)
}

// ends are ends of partitions.
type ends struct {
	mu sync.Mutex
	at [64]int64
}

func (e *ends) raise(partition int32, to int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at[partition] = max(e.at[partition], to)
}

func (e *ends) of(partition int32) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at[partition]
}

func (e *ends) sum() (all int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range e.at {
		all += at
	}
	return all
}

// ask fetches from one node what was acknowledged, without an epoch and whoever
// leads, until ctx ends, and counts the answers.
func (w *world) ask(ctx context.Context, client *kgo.Client, id int32, topicID [16]byte, partitions int32, acked *ends) (answers int) {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // which leaves others room
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = rand.Int32N(partitions)
		// The end too: it is where a consumer stands that has everything.
		p.FetchOffset, p.PartitionMaxBytes = max(0, acked.of(p.Partition)-rand.Int64N(3)), 1000
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID, topic.Partitions = "t", topicID, append(topic.Partitions, p)
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.SessionEpoch = 1000, -1
		req.Topics = append(req.Topics, topic)
		resp, err := client.Broker(int(id)).Request(ctx, req)
		if err != nil {
			if ctx.Err() == nil {
				w.T.Errorf("node %d: %v", id, err)
			}
			return answers
		}
		answers++
		switch code := protocol.Error(resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode); code {
		case protocol.None, protocol.ErrNotLeaderForPartition, protocol.ErrOffsetNotAvailable:
		default:
			w.T.Errorf("node %d answers a fetch of partition %d at %d, which was acknowledged: %v", id, p.Partition, p.FetchOffset, code)
		}
	}
	return answers
}

// rotate gives each partition the leader after the one that it has.
func (w *world) rotate(topic string, partitions int32, round int) {
	w.T.Helper()
	elect := kmsg.NewElectLeadersRequestTopic()
	elect.Topic = topic
	wanted := make([][]int32, partitions)
	for id := range wanted {
		for i := range 3 {
			wanted[id] = append(wanted[id], int32((id+round+i)%3+1))
		}
		elect.Partitions = append(elect.Partitions, int32(id))
	}
	w.Move(topic, wanted...)
	w.Await("the leaders to be others", func() bool {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Topics = append(req.Topics, elect)
		harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
		for _, p := range w.Partitions(topic) {
			if p.Leader != wanted[p.Partition][0] {
				return false
			}
		}
		return true
	})
}
