//go:build integration

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/integration/nemesis/history"
	"github.com/klamm/klamm/protocol"
)

// zombie is a producer and a consumer that reach one broker and no other: whoever is
// still with a leader that is none any more.
type zombie struct {
	w       *world
	name    string
	client  *kgo.Client
	leads   []int32 // the partitions that the broker led
	count   int
	asked   sync.WaitGroup
	reading context.CancelFunc
	ended   sync.Once
}

// hauntedBy begins a zombie of a broker that still leads.
func (w *world) hauntedBy(id int32) *zombie {
	w.T.Helper()
	address := w.Node(id).Address
	z := &zombie{w: w, name: fmt.Sprintf("zombie-%d-%d", id, time.Now().UnixMilli())}
	at := make(map[int32]kgo.Offset)
	for _, p := range w.Partitions(topic) {
		if p.Leader == id {
			z.leads = append(z.leads, p.Partition)
			at[p.Partition] = kgo.NewOffset().At(0)
		}
	}
	z.client = w.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.ProduceRequestTimeout(2*time.Minute), kgo.MaxProduceRequestsInflightPerBroker(5),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			if host != address {
				return nil, errors.New("a broker that this client does not reach")
			}
			return new(net.Dialer).DialContext(ctx, network, host)
		}))
	ctx, cancel := context.WithCancel(context.Background())
	z.reading = cancel
	w.T.Cleanup(z.end)
	z.asked.Go(func() {
		for ctx.Err() == nil {
			z.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				w.load.add(history.Event{Kind: history.Glimpse, Client: z.name, Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
			})
		}
	})
	z.send()
	w.Await("the zombie's first records", func() bool { return z.client.BufferedProduceRecords() == 0 })
	return z
}

// send sends a record to each partition that the broker led. What becomes of it the
// history knows.
func (z *zombie) send() {
	for _, p := range z.leads {
		z.count++
		e := history.Event{Client: z.name, Partition: p, Offset: -1, Value: fmt.Sprintf("%s-%03d", z.name, z.count), Repeats: true}
		sent := e
		sent.Kind = history.Send
		z.w.load.add(sent)
		z.client.Produce(context.Background(), &kgo.Record{Partition: p, Value: []byte(e.Value)}, func(r *kgo.Record, err error) {
			if e.Kind, e.Offset = history.Ack, r.Offset; err != nil {
				e.Kind, e.Offset, e.Note = history.Unknown, -1, err.Error()
			}
			z.w.load.add(e)
		})
	}
}

// end waits for what was sent, which is answered once the broker goes on.
func (z *zombie) end() { z.ended.Do(z.finish) }

func (z *zombie) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), z.w.Patience)
	defer cancel()
	if err := z.client.Flush(ctx); err != nil {
		z.w.T.Errorf("%s: its records were not answered: %v", z.name, err)
	}
	z.reading()
	z.asked.Wait()
	z.client.Close()
}

// refused asks the broker as a leader of the epochs that it led in, and wants to hear
// that they are over.
func (z *zombie) refused(id int32, epochs map[int32]int32) {
	w := z.w
	w.T.Helper()
	for p, epoch := range epochs {
		asked := kmsg.NewListOffsetsRequestTopicPartition()
		asked.Partition, asked.CurrentLeaderEpoch, asked.Timestamp = p, epoch, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, asked)
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		req.Topics = append(req.Topics, t)
		resp := harness.AskAt[*kmsg.ListOffsetsResponse](w.World, id, req)
		code := protocol.Error(resp.Topics[0].Partitions[0].ErrorCode)
		if code != protocol.ErrFencedLeaderEpoch && code != protocol.ErrNotLeaderForPartition {
			w.T.Errorf("partition %d: broker %d answers epoch %d, which is over, with %v", p, id, epoch, code)
		}
	}
}

// epochs are the leader epochs of the partitions that a broker leads.
func (w *world) epochs(id int32) map[int32]int32 {
	w.T.Helper()
	epochs := make(map[int32]int32)
	for _, p := range w.Partitions(topic) {
		if p.Leader == id {
			epochs[p.Partition] = p.LeaderEpoch
		}
	}
	return epochs
}
