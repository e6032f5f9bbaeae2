//go:build integration

package clients

import (
	"context"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo is segmentio/kafka-go.
type kafkaGo struct{}

func (kafkaGo) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	c, err := kafka.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
}

func (kafkaGo) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	var compression kafka.Compression
	if codec != "none" {
		if err := compression.UnmarshalText([]byte(codec)); err != nil {
			t.Fatal(err)
		}
	}
	// The default one is shared by the process and does not see at once a topic
	// that is younger than what it knows.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(address), Topic: topic, Compression: compression, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		Transport: transport,
	}
	defer writer.Close()
	var messages []kafka.Message
	for _, r := range records {
		message := kafka.Message{Key: []byte(r.Key), Headers: []kafka.Header{{Key: "h", Value: []byte(r.Header)}}}
		if r.Value != nil {
			message.Value = []byte(*r.Value)
		}
		messages = append(messages, message)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

func (kafkaGo) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []record
	for _, topic := range topics {
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, Topic: topic, MaxWait: 100 * time.Millisecond})
		for range count / len(topics) {
			message, err := reader.ReadMessage(ctx)
			if err != nil {
				t.Fatalf("%d of %d records read, then in %s: %v", len(records), count, topic, err)
			}
			records = append(records, fromKafkaGo(message))
		}
		if err := reader.Close(); err != nil {
			t.Errorf("close %s: %v", topic, err)
		}
	}
	return records
}

func fromKafkaGo(m kafka.Message) record {
	r := record{Topic: m.Topic, Partition: int32(m.Partition), Offset: m.Offset, Key: string(m.Key), Value: text(m.Value)}
	for _, h := range m.Headers {
		if h.Key == "h" {
			r.Header = string(h.Value)
		}
	}
	return r
}

func (kafkaGo) join(t *testing.T, m membership) member {
	t.Helper()
	config := kafka.ReaderConfig{
		Brokers: []string{m.address}, GroupID: m.group, Topic: m.topic, StartOffset: kafka.FirstOffset,
		MaxWait: 200 * time.Millisecond, HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 500 * time.Millisecond,
		// A member that has lost the node joins as a new one; the old one is
		// missed for so long.
		SessionTimeout: 6 * time.Second,
	}
	if m.assignor == "roundrobin" {
		config.GroupBalancers = []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}}
	}
	reader := kafka.NewReader(config)
	return goMember(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			message, err := reader.FetchMessage(ctx)
			if err != nil {
				continue // it goes on by itself
			}
			m.took(fromKafkaGo(message))
			// What fails is committed with what comes next, or read again by
			// whom the partition went to.
			_ = reader.CommitMessages(ctx, message)
		}
		return reader.Close()
	})
}
