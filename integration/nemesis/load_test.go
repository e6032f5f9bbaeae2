//go:build integration

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/integration/nemesis/history"
	"github.com/klamm/klamm/protocol"
)

// load is all clients of a world, and what the test wants to know of them at once.
type load struct {
	w         *world
	producers clients
	consumers clients
	admin     admin

	mu     sync.Mutex
	acks   [partitions]int
	ends   map[string]*[partitions]int64 // how far each group of consumers has come
	gaveUp map[string]int                // records, by producer and error
}

// clients are some that end together.
type clients struct {
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
}

func (c *clients) end() {
	c.stop()
	c.running.Wait()
}

func (w *world) startLoad() {
	w.T.Helper()
	l := &load{w: w, ends: make(map[string]*[partitions]int64), gaveUp: make(map[string]int)}
	w.load = l
	for _, c := range []*clients{&l.consumers, &l.producers, &l.admin.clients} {
		c.ctx, c.stop = context.WithCancel(context.Background())
		w.T.Cleanup(c.end)
	}
	l.assigned("franz-assign")
	l.member("franz-group/1")
	l.member("franz-group/2")
	l.librdkafkaConsumer("librdkafka-assign", "assign")
	l.librdkafkaConsumer("librdkafka-group/1", "subscribe")

	acks := w.acks
	if acks == "" {
		acks = "all"
	}
	level := map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck()}[acks]
	if acks == "all" && !w.loses { // such a producer may stop where records are lost
		l.producer("franz-idempotent", false)
		l.librdkafkaProducer("librdkafka-idempotent", false, "enable.idempotence=true", "delivery.timeout.ms=600000")
	}
	// Without retries librdkafka still sends again what a leader no longer is one for,
	// and that may have been appended.
	l.producer("franz-repeating", true, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(level))
	l.librdkafkaProducer("librdkafka-repeating", true, "acks="+acks, "retries=0", "delivery.timeout.ms=15000", "request.timeout.ms=5000")
	l.admin.start(w)
}

// acked is how many records of each partition were acknowledged.
func (l *load) acked() [partitions]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acks
}

// add takes down what a client did, and keeps count.
func (l *load) add(e history.Event) {
	l.w.history.Add(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case history.Ack:
		l.acks[e.Partition]++
	case history.Refused, history.Unknown:
		l.gaveUp[e.Client+": "+e.Note]++
	case history.Read, history.Moved:
		group := e.Group
		if group == "" {
			group = e.Client
		}
		if l.ends[group] == nil {
			l.ends[group] = new([partitions]int64)
		}
		if end := &l.ends[group][e.Partition]; e.Kind == history.Read {
			*end = max(*end, e.Offset+1)
		}
	}
}

// behind names a group of consumers that has not come to the ends of all partitions.
func (l *load) behind(ends [partitions]int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, at := range l.ends {
		for p := range ends {
			if at[p] < ends[p] {
				return fmt.Sprintf("%s, which is at %d of %d in partition %d", group, at[p], ends[p], p)
			}
		}
	}
	return ""
}

// producer writes on franz-go until the producers end, and then waits for what it
// has written. It repeats by itself what may have been taken, if it may.
func (l *load) producer(name string, repeats bool, opts ...kgo.Opt) {
	w := l.w
	w.T.Helper()
	client := w.NewClient(append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProduceRequestTimeout(5 * time.Second), kgo.MaxBufferedRecords(5000),
	}, opts...)...)
	chance := rand.New(rand.NewPCG(w.seed, uint64(len(name))))
	l.producers.running.Go(func() {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / *rate))
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
			case <-l.producers.ctx.Done():
				ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
				defer cancel()
				if err := client.Flush(ctx); err != nil {
					w.T.Errorf("%s: %d records have not been answered: %v", name, client.BufferedProduceRecords(), err)
				}
				return
			}
			event := history.Event{Client: name, Partition: chance.Int32N(partitions), Offset: -1, Value: fmt.Sprintf("%s-%06d", name, i)}
			sent := event
			sent.Kind, sent.Repeats = history.Send, repeats
			l.add(sent)
			client.Produce(context.Background(), &kgo.Record{Partition: event.Partition, Value: []byte(event.Value)}, func(r *kgo.Record, err error) {
				switch {
				case err == nil:
					event.Kind, event.Offset = history.Ack, r.Offset
				case !repeats && (errors.Is(err, kerr.NotEnoughReplicas) || errors.Is(err, kerr.MessageTooLarge)):
					event.Kind, event.Note = history.Refused, err.Error()
				default:
					event.Kind, event.Note = history.Unknown, err.Error()
				}
				l.add(event)
			})
		}
	})
}

// assigned reads all partitions on franz-go.
func (l *load) assigned(name string) {
	w := l.w
	w.T.Helper()
	all := make(map[int32]kgo.Offset)
	for p := range int32(partitions) {
		all[p] = kgo.NewOffset().At(0)
		l.add(history.Event{Kind: history.Moved, Client: name, Partition: p})
	}
	client := w.NewClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: all}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(100*time.Millisecond))
	l.consumers.running.Go(func() {
		for l.consumers.ctx.Err() == nil {
			l.took(name, "", client.PollFetches(l.consumers.ctx))
		}
	})
}

// member reads on franz-go as one of a group, GROUP/NUMBER.
func (l *load) member(name string) {
	w := l.w
	w.T.Helper()
	group := name[:len(name)-2]
	client := w.NewClient(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(time.Second), kgo.FetchMaxWait(100*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			for _, p := range assigned[topic] {
				l.add(history.Event{Kind: history.Moved, Client: name, Group: group, Partition: p})
			}
		}))
	l.consumers.running.Go(func() {
		for l.consumers.ctx.Err() == nil {
			l.took(name, group, client.PollFetches(l.consumers.ctx))
			client.AllowRebalance()
		}
		client.CloseAllowingRebalance()
	})
}

// took takes down what a consumer was given.
func (l *load) took(name, group string, fetches kgo.Fetches) {
	fetches.EachRecord(func(r *kgo.Record) {
		l.add(history.Event{Kind: history.Read, Client: name, Group: group, Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
	})
	fetches.EachError(func(_ string, p int32, err error) {
		if errors.Is(err, kerr.OffsetOutOfRange) && !l.w.loses {
			l.w.T.Errorf("%s: partition %d: %v", name, p, err)
		}
	})
}

// admin creates and deletes topics, and asks for metadata, of one broker after the
// other. What it wants it asks for until it is so.
type admin struct {
	clients
	made map[string]bool // whether it is to exist
}

func (a *admin) start(w *world) {
	w.T.Helper()
	a.made = make(map[string]bool)
	client := w.NewClient()
	asked := 0
	until := func(what string, do func(at *kgo.Broker) error) bool {
		for last := time.Now().Add(w.Patience); ; {
			asked++
			err := do(client.Broker(asked%len(w.Nodes) + 1))
			if err == nil {
				return true
			}
			if time.Now().After(last) {
				w.T.Errorf("%s: %v", what, err)
				return false
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-w.T.Context().Done():
				return false
			}
		}
	}
	a.running.Go(func() {
		for i := 0; a.ctx.Err() == nil; i++ {
			name := fmt.Sprintf("made-%04d", i)
			if !until("create "+name, func(at *kgo.Broker) error { return createTopic(w, at, name) }) {
				return
			}
			a.made[name] = true
			if i%4 == 3 {
				gone := fmt.Sprintf("made-%04d", i-2)
				if !until("delete "+gone, func(at *kgo.Broker) error { return deleteTopic(w, at, gone) }) {
					return
				}
				a.made[gone] = false
			}
			resp, err := client.Broker(i%len(w.Nodes)+1).Request(w.T.Context(), harness.MetadataRequest(topic))
			if err == nil && resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode != 0 {
				w.T.Errorf("broker %d says of a topic that exists: %v", i%len(w.Nodes)+1, protocol.Error(resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode))
			}
			select {
			case <-time.After(time.Second):
			case <-a.ctx.Done():
			}
		}
	})
}

func createTopic(w *world, at *kgo.Broker, name string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 3
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 2000
	req.Topics = append(req.Topics, t)
	resp, err := at.Request(w.T.Context(), req)
	if err != nil {
		return err
	}
	if code := protocol.Error(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); code != protocol.None && code != protocol.ErrTopicAlreadyExists {
		return code
	}
	return nil
}

func deleteTopic(w *world, at *kgo.Broker, name string) error {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 2000
	req.TopicNames = append(req.TopicNames, name)
	req.Topics = append(req.Topics, t)
	resp, err := at.Request(w.T.Context(), req)
	if err != nil {
		return err
	}
	if code := protocol.Error(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode); code != protocol.None && code != protocol.ErrUnknownTopicOrPartition {
		return code
	}
	return nil
}
