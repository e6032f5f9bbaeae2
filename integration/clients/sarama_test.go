//go:build integration

package clients

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient is IBM/sarama.
type saramaClient struct{}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion // the newest versions of the APIs that it has
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func (saramaClient) create(t *testing.T, address, topic string, partitions int) {
	t.Helper()
	admin, err := sarama.NewClusterAdmin([]string{address}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
}

func (saramaClient) produce(t *testing.T, address, topic, codec string, records []record) {
	t.Helper()
	config := saramaConfig()
	if err := config.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		t.Fatal(err)
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1 // which it demands of an idempotent producer
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		message := &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(r.Key),
			Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte(r.Header)}},
		}
		if r.Value != nil {
			message.Value = sarama.StringEncoder(*r.Value)
		}
		messages = append(messages, message)
	}
	if err := producer.SendMessages(messages); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

func (saramaClient) read(t *testing.T, address string, topics []string, count int) []record {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{address}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	came := make(chan *sarama.ConsumerMessage)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, topic := range topics {
		partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
		if err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		// Its end closes what the goroutine reads from.
		defer partition.AsyncClose()
		go func() {
			for message := range partition.Messages() {
				select {
				case came <- message:
				case <-ctx.Done():
				}
			}
		}()
	}
	var records []record
	for len(records) < count {
		select {
		case message := <-came:
			records = append(records, fromSarama(message))
		case <-ctx.Done():
			t.Fatalf("%d of %d records read", len(records), count)
		}
	}
	return records
}

func fromSarama(m *sarama.ConsumerMessage) record {
	r := record{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Key: string(m.Key), Value: text(m.Value)}
	for _, h := range m.Headers {
		if string(h.Key) == "h" {
			r.Header = string(h.Value)
		}
	}
	return r
}

func (saramaClient) join(t *testing.T, m membership) member {
	t.Helper()
	config := saramaConfig()
	config.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.InstanceId = m.instance
	switch m.assignor {
	case "sticky":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	case "cooperative-sticky":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	}
	group, err := sarama.NewConsumerGroup([]string{m.address}, m.group, config)
	if err != nil {
		t.Fatal(err)
	}
	return goMember(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			// It returns at each rebalance, and when the node is away.
			if err := group.Consume(ctx, []string{m.topic}, saramaHandler{m}); err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
		if err := group.Close(); err != nil && !errors.Is(err, sarama.ErrClosedClient) {
			return err
		}
		return nil
	})
}

// saramaHandler takes the messages of a session; what is marked is committed by
// the session.
type saramaHandler struct{ membership }

func (saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h saramaHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			h.took(fromSarama(message))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}
