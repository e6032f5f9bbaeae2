//go:build integration

package clients

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz is twmb/franz-go.
type franz struct{}

func franzClient(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (franz) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	c := franzClient(t, address)
	defer c.Close()
	asked := kmsg.NewCreateTopicsRequestTopic()
	asked.Topic, asked.NumPartitions, asked.ReplicationFactor = topic, int32(partitions), 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(patience.Milliseconds())
	request.Topics = append(request.Topics, asked)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := request.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
}

func (franz) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	compression := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[codec]
	c := franzClient(t, address, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(compression))
	defer c.Close()
	var sent []*kgo.Record
	for _, r := range records {
		message := &kgo.Record{Key: []byte(r.Key), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte(r.Header)}}}
		if r.Value != nil {
			message.Value = []byte(*r.Value)
		}
		sent = append(sent, message)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

func (franz) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	c := franzClient(t, address, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []record
	for len(records) < count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records read: %v", len(records), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, fromFranz(r)) })
	}
	return records
}

func fromFranz(r *kgo.Record) record {
	out := record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: text(r.Value)}
	for _, h := range r.Headers {
		if h.Key == "h" {
			out.Header = string(h.Value)
		}
	}
	return out
}

// text keeps null apart from empty.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

func (franz) join(t *testing.T, m membership) member {
	t.Helper()
	opts := []kgo.Opt{
		kgo.ConsumerGroup(m.group), kgo.ConsumeTopics(m.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(500 * time.Millisecond),
	}
	if m.assignor == "range" {
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	}
	if m.instance != "" {
		opts = append(opts, kgo.InstanceID(m.instance))
	}
	c := franzClient(t, m.address, opts...)
	return goMember(t, func(ctx context.Context) error {
		defer c.CloseAllowingRebalance()
		for ctx.Err() == nil {
			fetches := c.PollFetches(ctx)
			fetches.EachRecord(func(r *kgo.Record) { m.took(fromFranz(r)) })
			// What fails is committed with what comes next, or read again by
			// whom the partitions went to.
			_ = c.CommitUncommittedOffsets(ctx)
			c.AllowRebalance()
		}
		return nil
	})
}

// goMember is a member that runs in the test until its context ends.
func goMember(t *testing.T, run func(context.Context) error) member {
	ctx, cancel := context.WithCancel(context.Background())
	m := &routine{t: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = run(ctx)
	}()
	t.Cleanup(m.leave)
	return m
}

type routine struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

func (m *routine) leave() {
	m.t.Helper()
	m.cancel()
	<-m.done
	if m.err != nil {
		m.t.Errorf("a member failed: %v", m.err)
		m.err = nil
	}
}
