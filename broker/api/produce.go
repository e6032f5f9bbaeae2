package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/storage"
)

// imageSource has the newest image.
type imageSource interface {
	Image() *metadata.Image
}

// partitionSource has the replicas on this broker; *replica.Manager is one.
type partitionSource interface {
	Partition(topicID protocol.UUID, partition int32) (*replica.Partition, bool)
}

// Acknowledgements that a producer can ask for.
const (
	acksAll  int16 = -1 // after the in-sync replicas have it
	acksNone int16 = 0  // no answer at all
	acksOne  int16 = 1  // after the leader has it
)

// adminClient is the client id that may write to internal topics (AdminUtils.java).
const adminClient = "__admin_client"

// internalTopics are written by the coordinators alone (Topic.java).
var internalTopics = map[string]bool{
	"__consumer_offsets": true, "__transaction_state": true, "__share_group_state": true,
}

// Produce answers Produce requests: it validates and appends on the connection's
// reader, so batches of one connection are appended in the order in which they
// were sent, and waits for the high watermark on the writer.
type Produce struct {
	images     imageSource
	partitions partitionSource
	log        zerolog.Logger
}

// NewProduce returns the handler over the partitions of this broker.
func NewProduce(images imageSource, partitions partitionSource, log zerolog.Logger) *Produce {
	return &Produce{images: images, partitions: partitions, log: log}
}

// API returns what the server serves by this handler. Versions 0 to 2 are gone,
// though ApiVersions goes on listing them for old clients of librdkafka (KIP-896).
func (h *Produce) API() server.API {
	produce := server.Serve(kmsg.Produce, h.Handle)
	produce.RunsAhead = true
	return produce
}

// produceRun is one produce request on its way, owned by one goroutine at a time.
type produceRun struct {
	h        *Produce
	version  int16
	acks     int16
	listener string
	deadline time.Time
	topics   []produceTopic
	entries  []produceEntry
}

// produceTopic is a topic of the request, by name or, from v13 on, by id; the
// other one is zero.
type produceTopic struct {
	name    string
	id      protocol.UUID
	entries int // how many of its partitions the request is about
}

// produceEntry is what becomes of the records for one partition.
type produceEntry struct {
	topic     int // in the run's topics
	index     int32
	records   []byte      // aliases the frame
	batch     batch.Batch // aliases the frame; nil unless it could be cut
	partition *replica.Partition

	appended      replica.Appended
	inLog         bool // appended is set
	pending       bool // waits for the high watermark
	logAppendTime int64
	logStart      int64
	err           error
	refused       []batch.RecordError
}

// Handle appends what can be appended and answers, or leaves the answer to the
// writer where acks=all has to wait for other replicas.
func (h *Produce) Handle(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.ProduceRequest)
	run := &produceRun{
		h: h, version: body.Version, acks: body.Acks, listener: req.Conn.Listener,
		deadline: req.Received.Add(time.Duration(body.TimeoutMillis) * time.Millisecond),
	}
	run.list(body)
	if err := run.checkTransactions(body); err != nil {
		run.failAll(err)
		return run.answer()
	}
	run.resolve()
	if body.Acks < acksAll || body.Acks > acksOne {
		for i := range run.entries {
			if e := &run.entries[i]; e.err == nil {
				e.err = protocol.ErrInvalidRequiredAcks
			}
		}
		return run.answer()
	}
	for i := range run.entries {
		if e := &run.entries[i]; e.err == nil {
			run.append(e, req)
		}
		run.entries[i].count()
		run.entries[i].records, run.entries[i].batch = nil, nil // the frame is not ours any more
	}
	if run.flushDue() || run.settle() > 0 {
		return server.Answer{Wait: run.wait}
	}
	return run.answer()
}

// produceLists finds topics and partitions again that a request lists more than
// once. Few are gone through one by one, many are looked up: a request may hold
// as many as its frame has room for.
type produceLists struct {
	topics  map[produceTopic]int // with entries zero
	entries map[produceIndex]int
}

type produceIndex struct {
	topic     int
	partition int32
}

// list takes the partitions out of the request. Where one is listed twice there
// is one answer, for the records that come last, as in Kafka.
func (run *produceRun) list(body *kmsg.ProduceRequest) {
	n := 0
	for i := range body.Topics {
		n += len(body.Topics[i].Partitions)
	}
	run.entries = make([]produceEntry, 0, n)
	run.topics = make([]produceTopic, 0, len(body.Topics))
	var lists produceLists
	if len(body.Topics) > fewPartitions || n > fewPartitions {
		lists = produceLists{make(map[produceTopic]int), make(map[produceIndex]int, n)}
	}
	for i := range body.Topics {
		t := &body.Topics[i]
		if len(t.Partitions) == 0 {
			continue // Kafka leaves it out of the answer
		}
		topic := run.listTopic(&lists, produceTopic{name: t.Topic, id: t.TopicID})
		for j := range t.Partitions {
			run.listEntry(&lists, topic, &t.Partitions[j])
		}
	}
}

func (run *produceRun) listTopic(lists *produceLists, topic produceTopic) int {
	if lists.topics != nil {
		if at, ok := lists.topics[topic]; ok {
			return at
		}
		lists.topics[topic] = len(run.topics)
	} else {
		for i := range run.topics {
			if run.topics[i].name == topic.name && run.topics[i].id == topic.id {
				return i
			}
		}
	}
	run.topics = append(run.topics, topic)
	return len(run.topics) - 1
}

func (run *produceRun) listEntry(lists *produceLists, topic int, p *kmsg.ProduceRequestTopicPartition) {
	if lists.entries != nil {
		index := produceIndex{topic, p.Partition}
		if at, ok := lists.entries[index]; ok {
			run.entries[at].records = p.Records
			return
		}
		lists.entries[index] = len(run.entries)
	} else {
		for i := range run.entries {
			if e := &run.entries[i]; e.topic == topic && e.index == p.Partition {
				e.records = p.Records
				return
			}
		}
	}
	run.topics[topic].entries++
	run.entries = append(run.entries, produceEntry{
		topic: topic, index: p.Partition, records: p.Records, logAppendTime: -1, logStart: -1,
	})
}

// checkTransactions refuses a request as a whole whose transactional batches do
// not belong to one transactional producer. Plain batches beside them are fine.
func (run *produceRun) checkTransactions(body *kmsg.ProduceRequest) error {
	producer, found := int64(0), false
	for i := range run.entries {
		b, _, err := batch.Next(run.entries[i].records)
		if err != nil || !b.IsTransactional() {
			continue
		}
		if body.TransactionID == nil {
			return protocol.ErrTransactionalIDAuthorizationFailed
		}
		if !b.HasProducerID() {
			continue
		}
		if found && b.ProducerID() != producer {
			return protocol.Errorf(protocol.ErrInvalidProducerIDMapping, "Transactional records contained more than one producer ID")
		}
		producer, found = b.ProducerID(), true
	}
	return nil
}

func (run *produceRun) failAll(err error) {
	for i := range run.entries {
		run.entries[i].err = err
	}
}

// resolve finds the partitions on this broker and cuts their batches.
func (run *produceRun) resolve() {
	img := run.h.images.Image()
	for i := range run.entries {
		e := &run.entries[i]
		topic, err := resolveProduceTopic(img, &run.topics[e.topic], run.version >= 13)
		if err != nil {
			e.err = err
			continue
		}
		if _, ok := topic.Partition(e.index); !ok {
			e.err = protocol.ErrUnknownTopicOrPartition
			continue
		}
		p, ok := run.h.partitions.Partition(topic.ID, e.index)
		if ok {
			e.partition = p
		}
		if e.batch, e.err = cutBatch(e.records, run.version); e.err == nil && !ok {
			e.err = protocol.ErrNotLeaderForPartition
		}
	}
}

func resolveProduceTopic(img *metadata.Image, topic *produceTopic, byID bool) (*metadata.Topic, error) {
	if byID {
		if t, ok := img.TopicByID(topic.id); ok {
			return t, nil
		}
		return nil, protocol.ErrUnknownTopicID
	}
	if t, ok := img.Topic(topic.name); ok {
		return t, nil
	}
	if internalTopics[topic.name] {
		// Its coordinator will make it: a client has no business there, before
		// or after.
		return nil, protocol.ErrInvalidTopicException
	}
	return nil, protocol.ErrUnknownTopicOrPartition
}

// append validates one batch and appends it.
func (run *produceRun) append(e *produceEntry, req *server.Request) {
	if internalTopics[e.partition.TopicPartition().Topic] && req.ClientID != adminClient {
		e.err = protocol.ErrInvalidTopicException
		return
	}
	if e.batch.IsTransactional() {
		// Only a transaction coordinator could have begun a transaction on this
		// partition, and there is none yet. Kafka's later clients abort their
		// transaction on the second code (KIP-890).
		e.err = protocol.ErrInvalidTxnState
		if run.version > 10 {
			e.err = protocol.ErrTransactionAbortable
		}
		e.logStart = e.partition.LogStartOffset()
		return
	}
	if err := run.validate(e, req.Received); err != nil {
		run.fail(e, err)
		return
	}
	appended, err := e.partition.AppendAsLeader(e.batch, run.acks == acksAll, storage.AppendOptions{})
	if err != nil && !brokenAck {
		run.fail(e, err)
		return
	}
	e.appended, e.inLog, e.logStart = appended, true, appended.LogStartOffset
	e.pending = run.acks == acksAll
	if appended.Duplicate {
		// Kafka tells the time of what is already there.
		e.logAppendTime = appended.MaxTimestampMs
	}
}

// count counts what became of the batch.
func (e *produceEntry) count() {
	if e.partition == nil {
		return
	}
	t := e.partition.Traffic()
	t.Add(replica.Produces, 1)
	if e.err == nil {
		if !e.appended.Duplicate {
			t.Add(replica.BytesIn, int64(len(e.batch)))
			t.Add(replica.MessagesIn, e.appended.LastOffset-e.appended.FirstOffset+1)
		}
		return
	}
	switch protocol.CodeOf(e.err) {
	case protocol.ErrUnknownTopicOrPartition, protocol.ErrNotLeaderForPartition, protocol.ErrKafkaStorageError:
	case protocol.ErrMessageTooLarge, protocol.ErrRecordListTooLarge:
		t.Add(replica.Rejected, int64(len(e.records)))
	case protocol.ErrCorruptMessage:
		if errors.Is(e.err, batch.ErrCRC) {
			t.Add(replica.BadCRC, 1)
		}
	default:
		t.Add(replica.ProducesFailed, 1)
	}
	if errors.Is(e.err, batch.ErrMagic) || errors.Is(e.err, batch.ErrOldMagic) {
		t.Add(replica.BadMagic, 1)
	}
}

// fail notes an error. Kafka tells the log start with all but those that may mean
// that there is no such log here, or that the bytes could not be looked into.
func (run *produceRun) fail(e *produceEntry, err error) {
	e.err = err
	switch protocol.CodeOf(err) {
	case protocol.ErrUnknownTopicOrPartition, protocol.ErrNotLeaderForPartition, protocol.ErrMessageTooLarge,
		protocol.ErrRecordListTooLarge, protocol.ErrCorruptMessage, protocol.ErrKafkaStorageError:
	default:
		e.logStart = e.partition.LogStartOffset()
		if protocol.IsBug(err) {
			run.h.log.Error().Err(err).Str("topic", e.partition.TopicPartition().Topic).Int32("partition", e.index).Msg("append failed")
		}
	}
}

// settle asks for every entry that waits whether it still has to, and returns
// the number of those that do.
func (run *produceRun) settle() int {
	waiting := 0
	for i := range run.entries {
		e := &run.entries[i]
		if !e.pending {
			continue
		}
		done, err := e.partition.Committed(e.appended)
		switch {
		case err != nil:
			e.err, e.pending = err, false
		case done:
			e.pending = false
		default:
			waiting++
		}
	}
	return waiting
}

// flushDue tells whether something has to be synced before the answer, whatever
// acknowledgement was asked for (flush.messages).
func (run *produceRun) flushDue() bool {
	for i := range run.entries {
		if run.entries[i].inLog && run.entries[i].appended.FlushDue {
			return true
		}
	}
	return false
}

// flush syncs what is due, together with what other connections wait for.
func (run *produceRun) flush() {
	for i := range run.entries {
		e := &run.entries[i]
		if !e.inLog || !e.appended.FlushDue {
			continue
		}
		if err := e.partition.Flush(e.appended); err != nil {
			e.err, e.pending = err, false
			run.h.log.Error().Err(err).Str("topic", e.partition.TopicPartition().Topic).Int32("partition", e.index).Msg("flush failed")
		}
	}
}

// wait syncs what has to be synced, and parks the request until the high
// watermark has passed everything, or its deadline. It runs on the connection's
// writer goroutine.
func (run *produceRun) wait(ctx context.Context) server.Answer {
	run.flush()
	w := replica.NewWaiter(len(run.entries))
	for run.settle() > 0 {
		for i := range run.entries {
			if e := &run.entries[i]; e.pending {
				e.partition.ParkForCommit(w, e.appended)
			}
		}
		woken := w.Wait(ctx, run.deadline)
		// At a stop the partitions have moved on just before, and the client wants to
		// be told of it rather than to find the connection closed.
		if err := ctx.Err(); err != nil && run.settle() > 0 {
			return server.Answer{Close: fmt.Errorf("produce was parked: %w", err)}
		}
		if (!woken || !time.Now().Before(run.deadline)) && run.settle() > 0 {
			run.expire()
		}
	}
	return run.answer()
}

// expire gives up on what still waits. The batches stay in the log, and may be
// committed yet.
func (run *produceRun) expire() {
	for i := range run.entries {
		if e := &run.entries[i]; e.pending {
			e.err, e.pending = protocol.ErrRequestTimedOut, false
		}
	}
}
