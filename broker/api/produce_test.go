package api

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// producedPartition is the answer for the only partition.
func (w *dataWorld) producedPartition(req *kmsg.ProduceRequest) *kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	resp := w.ask(req).(*kmsg.ProduceResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		w.t.Fatalf("answer %+v", resp)
	}
	return &resp.Topics[0].Partitions[0]
}

func TestProduceVersions(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	for version := int16(3); version <= 13; version++ {
		p := w.producedPartition(produceRequest(version, acksAll, "t", plainBatch(2)))
		start := int64(0)
		if version < 5 {
			start = -1 // the field is not there
		}
		if p.ErrorCode != 0 || p.BaseOffset != int64(version-3)*2 || p.LogAppendTime != -1 || p.LogStartOffset != start {
			t.Errorf("version %d: %+v", version, p)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	compacted := worldConfig()
	compacted.Compacted = true
	w.config["compacted"] = compacted
	w.topic("compacted", 1, 1)
	small := worldConfig()
	small.MaxMessageBytes = 100
	w.config["small"] = small
	w.topic("small", 1, 1)
	w.topic("__consumer_offsets", 1, 1)
	badCRC := plainBatch(1)
	badCRC[len(badCRC)-1] ^= 1
	keyless := batch.NewBuilder(batch.Options{})
	keyless.Append(batch.Record{Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
	withoutKey, _ := keyless.Build()
	old := bytes.Clone(plainBatch(1))
	old[16] = 1
	producer := &batch.Producer{ID: 7}
	for _, tc := range []struct {
		name    string
		version int16
		acks    int16
		topic   string
		records []byte
		want    protocol.Error
		start   int64
	}{
		{"acks of two", 9, 2, "t", plainBatch(1), protocol.ErrInvalidRequiredAcks, -1},
		{"acks of minus two", 9, -2, "t", plainBatch(1), protocol.ErrInvalidRequiredAcks, -1},
		{"acks of two, no such topic", 9, 2, "none", plainBatch(1), protocol.ErrUnknownTopicOrPartition, -1},
		{"no such topic", 9, -1, "none", plainBatch(1), protocol.ErrUnknownTopicOrPartition, -1},
		{"no such topic id", 13, -1, "none", plainBatch(1), protocol.ErrUnknownTopicID, -1},
		{"null records", 9, -1, "t", nil, protocol.ErrInvalidRecord, -1},
		{"no records", 9, -1, "t", []byte{}, protocol.ErrInvalidRecord, -1},
		{"a batch of nothing", 9, -1, "t", plainBatch(0), protocol.ErrInvalidRecord, 0},
		{"half a batch", 9, -1, "t", plainBatch(1)[:50], protocol.ErrInvalidRecord, -1},
		{"two batches", 9, -1, "t", append(plainBatch(1), plainBatch(1)...), protocol.ErrInvalidRecord, -1},
		{"old magic", 9, -1, "t", old, protocol.ErrInvalidRecord, -1},
		{"wrong CRC", 9, -1, "t", badCRC, protocol.ErrCorruptMessage, -1},
		{"too large", 9, -1, "small", plainBatch(10), protocol.ErrMessageTooLarge, -1},
		{"zstd before v7", 6, -1, "t", builtBatch(1, batch.Options{Codec: batch.CodecZstd}), protocol.ErrUnsupportedCompressionType, -1},
		{"no key", 9, -1, "compacted", withoutKey, protocol.ErrInvalidRecord, 0},
		{"internal topic", 9, -1, "__consumer_offsets", plainBatch(1), protocol.ErrInvalidTopicException, -1},
		{"internal topic to come", 9, -1, "__transaction_state", plainBatch(1), protocol.ErrInvalidTopicException, -1},
		{"transactional without id", 9, -1, "t", builtBatch(1, batch.Options{Producer: producer, Transactional: true}), protocol.ErrTransactionalIDAuthorizationFailed, -1},
		{"control batch", 9, -1, "t", builtBatch(1, batch.Options{Control: true}), protocol.ErrInvalidRecord, 0},
		{"sequence without the one before", 9, -1, "t", nil, protocol.ErrOutOfOrderSequenceNumber, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.want == protocol.ErrOutOfOrderSequenceNumber {
				w.ask(produceRequest(9, -1, "t", builtBatch(1, batch.Options{Producer: &batch.Producer{ID: 9}})))
				tc.records = builtBatch(1, batch.Options{Producer: &batch.Producer{ID: 9, BaseSequence: 5}})
			}
			p := w.producedPartition(produceRequest(tc.version, tc.acks, tc.topic, tc.records))
			if protocol.Error(p.ErrorCode) != tc.want || p.BaseOffset != -1 || p.LogAppendTime != -1 {
				t.Errorf("answer %+v, want %v", p, tc.want)
			}
			if tc.version >= 5 && p.LogStartOffset != tc.start {
				t.Errorf("log start offset %d, want %d", p.LogStartOffset, tc.start)
			}
		})
	}
	if p := w.producedPartition(produceRequest(9, -1, "t", plainBatch(1))); p.BaseOffset != 1 {
		t.Errorf("a refused batch left something behind: offset %d", p.BaseOffset)
	}
}

// TestRecordErrors: each refused record is named (KIP-467).
func TestRecordErrors(t *testing.T) {
	w := newDataWorld(t)
	config := worldConfig()
	config.Compacted = true
	w.config["t"] = config
	w.topic("t", 1, 1)
	b := batch.NewBuilder(batch.Options{})
	for _, key := range []string{"k", "", "j", ""} {
		r := batch.Record{Value: []byte("v"), Timestamp: time.Now().UnixMilli()}
		if key != "" {
			r.Key = []byte(key)
		}
		b.Append(r)
	}
	built, _ := b.Build()
	p := w.producedPartition(produceRequest(9, -1, "t", built))
	if len(p.ErrorRecords) != 2 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorRecords[1].RelativeOffset != 3 ||
		p.ErrorMessage == nil || p.ErrorRecords[0].ErrorMessage == nil {
		t.Errorf("answer %+v", p)
	}
}

// TestTransactionsAreRefused: nobody can have begun a transaction (B129, KIP-890),
// and one request is of one producer (B008).
func TestTransactionsAreRefused(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 2)
	id := "txn"
	transactional := func(producer int64) []byte {
		return builtBatch(1, batch.Options{Producer: &batch.Producer{ID: producer}, Transactional: true})
	}
	for version, want := range map[int16]protocol.Error{10: protocol.ErrInvalidTxnState, 11: protocol.ErrTransactionAbortable} {
		req := produceRequest(version, -1, "t", transactional(1))
		req.TransactionID = &id
		if p := w.producedPartition(req); protocol.Error(p.ErrorCode) != want || p.LogStartOffset != 0 {
			t.Errorf("version %d: %+v", version, p)
		}
	}
	req := produceRequest(9, -1, "t", transactional(1))
	req.TransactionID = &id
	second := req.Topics[0].Partitions[0]
	second.Partition, second.Records = 1, transactional(2)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	for _, p := range w.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if protocol.Error(p.ErrorCode) != protocol.ErrInvalidProducerIDMapping {
			t.Errorf("two producers: %+v", p)
		}
	}
	plain := produceRequest(9, -1, "t", plainBatch(1))
	plain.TransactionID = &id
	if p := w.producedPartition(plain); p.ErrorCode != 0 {
		t.Errorf("plain batch: %+v", p)
	}
}

// TestProduceListedTwice: one partition listed twice has one answer, one topic
// listed twice one entry.
func TestProduceListedTwice(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 2)
	for _, many := range []bool{false, true} { // searched, and looked up
		req := produceRequest(9, -1, "t", plainBatch(1))
		twice := req.Topics[0].Partitions[0]
		twice.Records = plainBatch(2)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, twice)
		again := req.Topics[0]
		again.Partitions = []kmsg.ProduceRequestTopicPartition{twice}
		again.Partitions[0].Partition = 1
		req.Topics = append(req.Topics, again)
		if many {
			for i := range fewPartitions {
				none := twice
				none.Partition = int32(100 + i)
				req.Topics[1].Partitions = append(req.Topics[1].Partitions, none)
			}
		}
		resp := w.ask(req).(*kmsg.ProduceResponse)
		if len(resp.Topics) != 1 || !many && len(resp.Topics[0].Partitions) != 2 {
			t.Fatalf("answer %+v", resp)
		}
	}
	p, _ := w.manager.Partition(worldTopicID("t", 1), 0)
	if hw, _ := p.HighWatermark(); hw != 4 {
		t.Errorf("%d records are there, want twice 2", hw)
	}
}

func TestAcksNone(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	a := w.produce.Handle(t.Context(), w.request(produceRequest(9, acksNone, "t", plainBatch(1))))
	if !a.None || a.Close != nil {
		t.Errorf("answer %+v", a)
	}
	a = w.produce.Handle(t.Context(), w.request(produceRequest(9, acksNone, "none", plainBatch(1))))
	if a.None || a.Response != nil || protocol.CodeOf(a.Close) != protocol.ErrUnknownTopicOrPartition {
		t.Errorf("answer to an error %+v", a)
	}
	empty := kmsg.NewPtrProduceRequest()
	empty.Version = 9
	if a := w.produce.Handle(t.Context(), w.request(empty)); !a.None {
		t.Errorf("answer to nothing %+v", a)
	}
}

func TestDuplicateBatch(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	b := builtBatch(3, batch.Options{Producer: &batch.Producer{ID: 7}})
	first := w.producedPartition(produceRequest(9, -1, "t", bytes.Clone(b)))
	w.mustProduce("t", 1)
	again := w.producedPartition(produceRequest(9, -1, "t", bytes.Clone(b)))
	if first.ErrorCode != 0 || again.ErrorCode != 0 || again.BaseOffset != first.BaseOffset || again.LogAppendTime <= 0 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if hw, _ := w.partition(worldTopicID("t", 1)).HighWatermark(); hw != 4 {
		t.Errorf("%d records are there, want 4", hw)
	}
}

func TestAppendTime(t *testing.T) {
	w := newDataWorld(t)
	config := worldConfig()
	config.AppendTime = true
	w.config["t"] = config
	w.topic("t", 1, 1)
	p := w.producedPartition(produceRequest(9, -1, "t", plainBatch(2)))
	if age := time.Now().UnixMilli() - p.LogAppendTime; p.ErrorCode != 0 || age < 0 || age > 60_000 {
		t.Errorf("answer %+v", p)
	}
	b := w.fetchBatch(fetchRequest(12, "t", 0))
	if !b.IsAppendTime() || b.MaxTimestamp() != p.LogAppendTime || b.CheckCRC() != nil {
		t.Errorf("append time %v, max timestamp %d", b.IsAppendTime(), b.MaxTimestamp())
	}
}

func TestRecompress(t *testing.T) {
	w := newDataWorld(t)
	config := worldConfig()
	config.Recompress, config.Codec = true, batch.CodecGzip
	w.config["t"] = config
	w.topic("t", 1, 1)
	if p := w.producedPartition(produceRequest(9, -1, "t", builtBatch(20, batch.Options{Codec: batch.CodecLZ4}))); p.ErrorCode != 0 {
		t.Fatalf("answer %+v", p)
	}
	if b := w.fetchBatch(fetchRequest(12, "t", 0)); b.Codec() != batch.CodecGzip || b.RecordCount() != 20 || b.CheckCRC() != nil {
		t.Errorf("codec %s, %d records", b.Codec(), b.RecordCount())
	}
}

// TestRecompressLevel: batches are packed at the level that the topic says.
func TestRecompressLevel(t *testing.T) {
	w := newDataWorld(t)
	sizes := make(map[string]int)
	for name, level := range map[string]int{"fast": 1, "small": 9} {
		config := worldConfig()
		config.Recompress, config.Codec, config.Level = true, batch.CodecGzip, level
		w.config[name] = config
		w.topic(name, 1, 1)
		if p := w.producedPartition(produceRequest(9, -1, name, builtBatch(2000, batch.Options{}))); p.ErrorCode != 0 {
			t.Fatalf("answer %+v", p)
		}
		sizes[name] = w.fetchBatch(fetchRequest(12, name, 0)).Size()
	}
	if sizes["small"] >= sizes["fast"] {
		t.Errorf("sizes %v", sizes)
	}
}

// logFault is a log that can fail.
type logFault struct {
	replica.Log
	appendErr, flushErr *error
	due                 *bool
	flushed             *int64
}

func (l logFault) AppendAsLeader(b []byte, epoch protocol.LeaderEpoch, opts storage.AppendOptions) (storage.AppendResult, error) {
	if *l.appendErr != nil {
		return storage.AppendResult{}, *l.appendErr
	}
	result, err := l.Log.AppendAsLeader(b, epoch, opts)
	result.FlushDue = *l.due
	return result, err
}

func (l logFault) FlushedTo() int64 { return *l.flushed }

func (l logFault) Flush(upTo int64) error {
	if *l.flushErr == nil {
		*l.flushed = upTo
	}
	return *l.flushErr
}

// TestAckAfterAppend: nothing is answered as done that is not in the log, or not
// synced where it has to be (invariant 9).
func TestAckAfterAppend(t *testing.T) {
	w := newDataWorld(t)
	var appendErr, flushErr error
	var due bool
	var flushed int64
	w.wrap = func(l replica.Log) replica.Log { return logFault{l, &appendErr, &flushErr, &due, &flushed} }
	id := w.topic("t", 1, 1)
	w.mustProduce("t", 1)
	for _, acks := range []int16{acksOne, acksAll} {
		appendErr, flushErr, due = errors.New("disk is gone"), nil, false
		if p := w.producedPartition(produceRequest(9, acks, "t", plainBatch(1))); p.ErrorCode == 0 || p.BaseOffset != -1 {
			t.Errorf("acks %d: a failed append was acknowledged: %+v", acks, p)
		}
		appendErr, flushErr, due = nil, errors.New("disk is gone"), true
		if p := w.producedPartition(produceRequest(9, acks, "t", plainBatch(1))); p.ErrorCode == 0 {
			t.Errorf("acks %d: a failed flush was acknowledged: %+v", acks, p)
		}
		appendErr, flushErr, due = nil, nil, true
		p := w.producedPartition(produceRequest(9, acks, "t", plainBatch(1)))
		if hw, _ := w.partition(id).HighWatermark(); p.ErrorCode != 0 || hw != p.BaseOffset+1 || flushed != p.BaseOffset+1 {
			t.Errorf("acks %d: answer %+v, high watermark %d, flushed to %d", acks, p, hw, flushed)
		}
	}
}

// A build that answers before the append must not pass.
func TestBrokenAckIsCaught(t *testing.T) {
	if brokenAck {
		t.Skip("this is the broken build")
	}
	if testing.Short() {
		t.Skip("it builds the package again")
	}
	out, err := exec.Command("go", "test", "-tags", "broken_ack", "-run", "^TestAckAfterAppend$", ".").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a failed append was acknowledged") {
		t.Errorf("the broken build passed, or failed otherwise:\n%s", out)
	}
}

// TestAcksAllWaits: the answer comes when the followers have the batch, and not
// before.
func TestAcksAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		id := w.topic("t", 1, 1, 1, 2)
		go func() {
			time.Sleep(time.Second)
			follow(t, w.partition(id), 0)
			time.Sleep(time.Second)
			follow(t, w.partition(id), 1)
		}()
		begin := time.Now()
		p := w.producedPartition(produceRequest(9, acksAll, "t", plainBatch(1)))
		if p.ErrorCode != 0 || time.Since(begin) != 2*time.Second {
			t.Errorf("answer %+v after %v", p, time.Since(begin))
		}
	})
}

// follow fetches as replica 2.
func follow(t *testing.T, p *replica.Partition, offset int64) {
	t.Helper()
	got, err := p.Fetch(replica.FetchRequest{Offset: offset, MaxBytes: 1 << 20, Replica: 2, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
	if err != nil {
		t.Error(err)
	}
	if got.Records != nil {
		got.Records.Release()
	}
}

func TestProduceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("t", 1, 1, 1, 2)
		begin := time.Now()
		p := w.producedPartition(produceRequest(9, acksAll, "t", plainBatch(1)))
		if protocol.Error(p.ErrorCode) != protocol.ErrRequestTimedOut || p.BaseOffset != 0 || time.Since(begin) != 5*time.Second {
			t.Errorf("answer %+v after %v", p, time.Since(begin))
		}
	})
}

// TestStopAfterLeadershipLost: a request that waits when the broker stops is answered
// where all of it is settled, as it is once leaders have moved; otherwise its
// connection is closed.
func TestStopAfterLeadershipLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		id := w.topic("t", 1, 1, 1, 2)
		for _, moved := range []bool{false, true} {
			body := produceRequest(12, -1, "t", plainBatch(1))
			ctx, stop := context.WithCancel(t.Context())
			a := w.handler(body)(ctx, w.request(body))
			if a.Wait == nil {
				t.Fatal("the request does not wait")
			}
			if moved {
				w.lead(id, 2)
			}
			stop()
			resp, err := decodeAnswer(body, complete(ctx, a))
			if !moved {
				if err == nil {
					t.Errorf("what is not settled is answered: %+v", resp)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if code := protocol.Error(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); code != protocol.ErrNotLeaderForPartition {
				t.Errorf("%v", code)
			}
		}
	})
}

// TestLeadershipLostWhileWaiting: the answer names the new leader (KIP-951).
func TestLeadershipLostWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		id := w.topic("t", 1, 1, 1, 2)
		go func() {
			time.Sleep(time.Second)
			w.lead(id, 2)
		}()
		begin := time.Now()
		resp := w.ask(produceRequest(10, acksAll, "t", plainBatch(1))).(*kmsg.ProduceResponse)
		p := &resp.Topics[0].Partitions[0]
		if protocol.Error(p.ErrorCode) != protocol.ErrNotLeaderForPartition || time.Since(begin) != time.Second {
			t.Errorf("answer %+v after %v", p, time.Since(begin))
		}
		if p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 1 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "two" {
			t.Errorf("leader %+v at %+v", p.CurrentLeader, resp.Brokers)
		}
	})
}

func TestProduceCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("t", 1, 1, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := complete(ctx, w.produce.Handle(ctx, w.request(produceRequest(9, acksAll, "t", plainBatch(1)))))
		if !errors.Is(a.Close, context.DeadlineExceeded) {
			t.Errorf("answer %+v", a)
		}
	})
}

func TestNotEnoughReplicas(t *testing.T) {
	w := newDataWorld(t)
	config := worldConfig()
	config.MinInSyncReplicas = 2
	w.config["t"] = config
	id := w.topic("t", 1, 1, 1, 2)
	w.apply(&record.PartitionChange{
		TopicID: id, ISR: []protocol.NodeID{1}, Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged,
	})
	if p := w.producedPartition(produceRequest(9, acksAll, "t", plainBatch(1))); protocol.Error(p.ErrorCode) != protocol.ErrNotEnoughReplicas {
		t.Errorf("acks=all: %+v", p)
	}
	if p := w.producedPartition(produceRequest(9, acksOne, "t", plainBatch(1))); p.ErrorCode != 0 {
		t.Errorf("acks=1: %+v", p)
	}
}

// TestProduceAllocations: what a request costs does not depend on its records.
func TestProduceAllocations(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	cost := func(records int) float64 {
		req := w.request(produceRequest(9, acksAll, "t", plainBatch(records)))
		b := batch.Batch(req.Body.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
		return testing.AllocsPerRun(50, func() {
			b.SetBaseOffset(0) // the append patched it
			if a := w.produce.Handle(t.Context(), req); a.Response == nil {
				t.Fatal("no response")
			}
		})
	}
	few, many := cost(1), cost(2000)
	t.Logf("%v allocations for 1 record, %v for 2000", few, many)
	if many > few+2 || few > 25 {
		t.Errorf("%v allocations for 1 record, %v for 2000", few, many)
	}
}
