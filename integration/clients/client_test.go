//go:build integration

package clients

import (
	"testing"
	"time"
)

// patience bounds every wait. Nothing takes nearly as long unless it is stuck.
const patience = 90 * time.Second

// record is one record as the tests write and expect it.
type record struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Key       string  `json:"key"`
	Value     *string `json:"value"`
	Header    string  `json:"header"` // the value of the header "h"
}

// client is a library or program that speaks to the node. What it is asked for
// is done when the call returns; a failure ends the test.
type client interface {
	// create makes a topic with one replica.
	create(t *testing.T, address, topic string, partitions int)
	// produce writes keys, values and headers with one codec, to the partitions
	// that the client chooses, and waits until all are acknowledged (acks=all).
	produce(t *testing.T, address, topic, codec string, records []record)
	// read reads so many records of the topics, in all, from their start.
	read(t *testing.T, address string, topics []string, count int) []record
	// join starts a member of a group, which reads the topic, from its start
	// where nothing is committed, and commits what it has read.
	join(t *testing.T, m membership) member
}

// membership is what a member is told.
type membership struct {
	address, group, topic string
	assignor              string       // Kafka's name of it; "" is the client's default
	instance              string       // of a static member (KIP-345), or ""
	took                  func(record) // called for each record, before it is committed
}

// member is a member at work, which ends with the test if not before.
type member interface {
	// leave ends the member in order and waits for its end.
	leave()
}

// codecs are all of Kafka's, and each client knows all of them.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// clients are all that the tests try. The assignors are those that are tried,
// a group each.
var clients = []struct {
	name      string
	client    client
	assignors []string
	static    bool // knows static members
	// drops says that a member which is told to end commits the record that it
	// has in hand without printing it.
	drops bool
}{
	{name: "kcat", client: kcat{}, assignors: []string{"", "cooperative-sticky"}, static: true, drops: true},
	{name: "console", client: console{}, assignors: []string{"org.apache.kafka.clients.consumer.CooperativeStickyAssignor"}, static: true},
	{name: "franz-go", client: franz{}, assignors: []string{"", "range"}, static: true},
	{name: "confluent-kafka-python", client: python("confluent.py"), assignors: []string{"", "cooperative-sticky"}, static: true},
	{name: "sarama", client: saramaClient{}, assignors: []string{"", "sticky", "cooperative-sticky"}, static: true},
	{name: "kafka-go", client: kafkaGo{}, assignors: []string{"", "roundrobin"}},
	{name: "kafkajs", client: javascript("kafkajs.js"), assignors: []string{""}},
	{name: "aiokafka", client: python("aio.py"), assignors: []string{"", "sticky"}, static: true},
}
