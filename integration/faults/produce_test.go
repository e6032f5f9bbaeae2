//go:build integration

package faults

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// TestB002FiveInFlight: an idempotent producer with several batches in flight
// was told that they are out of order. Up to five that follow one another are
// taken.
func TestB002FiveInFlight(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic, producer := createTopic(c), initProducer(c)
	counts := []int{3, 2, 1, 4, 2}
	next := int32(0)
	for _, count := range counts {
		c.send(9, produceRequest(topic, numbered(producer, next, count)))
		next += int32(count)
	}
	want := int64(0)
	for _, count := range counts {
		p := answer[*kmsg.ProduceResponse](c).Topics[0].Partitions[0]
		wantCode(t, "batch in flight", p.ErrorCode, protocol.None)
		if p.BaseOffset != want {
			t.Errorf("base offset %d, want %d", p.BaseOffset, want)
		}
		want += int64(count)
	}
	wantOffsets(c, topic, 0, want)
}

// TestB003FirstSequence: a producer that the broker had forgotten was told that
// its next batch is out of order. The first sequence of a producer that is not
// known may be any; what follows must follow.
func TestB003FirstSequence(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic, producer := createTopic(c), initProducer(c)
	wantCode(t, "first batch, sequence 7", produce(c, topic, numbered(producer, 7, 2)).ErrorCode, protocol.None)
	wantCode(t, "sequence 9", produce(c, topic, numbered(producer, 9, 2)).ErrorCode, protocol.None)
	wantCode(t, "sequence 20", produce(c, topic, numbered(producer, 20, 2)).ErrorCode, protocol.ErrOutOfOrderSequenceNumber)
	wantOffsets(c, topic, 0, 4)
}

// TestB005RecordTooLong: a record that claims more bytes than there are, in a
// batch whose CRC is right, crashed the handler. It is an invalid record, and
// costs neither the connection nor the log anything.
func TestB005RecordTooLong(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	for _, length := range []byte{0x7e, 0x3e, 0x01} { // varints: 63, 31, −1
		data := batch.Batch(records(batch.Options{}, "abc"))
		data[batch.HeaderSize] = length
		data.SetCRC()
		wantCode(t, "produce", produce(c, topic, data).ErrorCode, protocol.ErrInvalidRecord)
	}
	for cut := 1; cut < 12; cut++ {
		// A batch whose last record ends with the batch, before its own end.
		data := batch.Batch(records(batch.Options{}, "abc"))
		data = data[:len(data)-cut]
		binary.BigEndian.PutUint32(data[8:], uint32(len(data)-batch.FrameSize))
		data.SetCRC()
		wantCode(t, "produce of a record cut off", produce(c, topic, data).ErrorCode, protocol.ErrInvalidRecord)
	}
	wantOffsets(c, topic, 0, 0)
}

// TestB006TimestampOutsideWindow: a timestamp outside the permitted window was
// reported as an invalid record; the code is INVALID_TIMESTAMP.
func TestB006TimestampOutsideWindow(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	for _, window := range []struct {
		key  string
		away time.Duration
	}{
		{"message.timestamp.after.max.ms", time.Hour},
		{"message.timestamp.before.max.ms", -time.Hour},
	} {
		topic := createTopic(c, window.key, "1000")
		b := batch.NewBuilder(batch.Options{})
		b.Append(batch.Record{Timestamp: now(), Value: []byte("in time")})
		b.Append(batch.Record{Timestamp: now() + window.away.Milliseconds(), Value: []byte("not in time")})
		wantCode(t, window.key, produce(c, topic, build(b)).ErrorCode, protocol.ErrInvalidTimestamp)
		wantOffsets(c, topic, 0, 0)
	}
}

// TestB008ProducersOfOneTransaction: a request with a transactional id was taken
// for transactional in all its batches. Its transactional batches are of one
// producer, or nothing of the request is written; plain ones beside them are not
// a transaction's.
func TestB008ProducersOfOneTransaction(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	first, second := createTopic(c), createTopic(c)
	transactional := func() []byte {
		producer := initProducer(c)
		return records(batch.Options{Transactional: true, Producer: &batch.Producer{ID: producer.ProducerID, Epoch: producer.ProducerEpoch}}, "a")
	}
	id := unique(t, "transaction")
	req := produceRequest(first, transactional())
	req.TransactionID = &id
	req.Topics = append(req.Topics, produceRequest(second, transactional()).Topics...)
	for _, topic := range ask[*kmsg.ProduceResponse](c, 9, req).Topics {
		wantCode(t, "two producers", topic.Partitions[0].ErrorCode, protocol.ErrInvalidProducerIDMapping)
	}
	wantOffsets(c, first, 0, 0)
	wantOffsets(c, second, 0, 0)

	plain := produceRequest(first, records(batch.Options{}, "a"))
	plain.TransactionID = &id
	wantCode(t, "a plain batch", ask[*kmsg.ProduceResponse](c, 9, plain).Topics[0].Partitions[0].ErrorCode, protocol.None)
	wantOffsets(c, first, 0, 1)
}

// TestB009MessageSetsOfOldFormats: message sets were read with a length that
// was four bytes too long. Kafka 4 takes none at all: ApiVersions lists Produce
// from version 0 for the sake of old librdkafka (KIP-896), but versions below 3
// end the connection, and a message set in a later version is an invalid record.
func TestB009MessageSetsOfOldFormats(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	c := dial(t, n.Address)
	topic := createTopic(c)
	var set []byte
	for range 3 {
		message := kmsg.MessageV1{Magic: 1, Timestamp: now(), Key: []byte("k"), Value: []byte("v")}
		message.MessageSize = int32(len(message.AppendTo(nil)) - 12)
		set = message.AppendTo(set)
	}
	old := dial(t, n.Address)
	old.send(2, produceRequest(topic, set))
	old.wantClosed()
	wantCode(t, "a message set in Produce v3", ask[*kmsg.ProduceResponse](c, 3, produceRequest(topic, set)).Topics[0].Partitions[0].ErrorCode, protocol.ErrInvalidRecord)
	wantOffsets(c, topic, 0, 0)
}

// TestB011MinISRAboveReplicas: min.insync.replicas above the number of replicas
// made a topic unwritable. It counts as all of them.
func TestB011MinISRAboveReplicas(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c, "min.insync.replicas", "2")
	p := produce(c, topic, records(batch.Options{}, "a"))
	wantCode(t, "acks=all", p.ErrorCode, protocol.None)
	if p.BaseOffset != 0 {
		t.Errorf("base offset %d, want 0", p.BaseOffset)
	}
}

// TestB200FlippedBits: batches whose CRC does not match are refused, each of
// them, and cost nobody anything.
func TestB200FlippedBits(t *testing.T) {
	t.Parallel()
	c := dial(t, sharedNode(t).Address)
	topic := createTopic(c)
	for _, at := range []int{17, batch.HeaderSize - 1, batch.HeaderSize + 5} {
		data := records(batch.Options{}, "abc")
		data[at] ^= 0x10
		wantCode(t, "produce", produce(c, topic, data).ErrorCode, protocol.ErrCorruptMessage)
	}
	wantOffsets(c, topic, 0, 0)
}
