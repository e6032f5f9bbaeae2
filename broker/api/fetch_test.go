package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/server"
)

// fetchedPartition is the answer for the only partition.
func (w *dataWorld) fetchedPartition(req *kmsg.FetchRequest) *kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := w.ask(req).(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		w.t.Fatalf("answer %+v", resp)
	}
	return &resp.Topics[0].Partitions[0]
}

// fetchBatch is the first batch of an answer.
func (w *dataWorld) fetchBatch(req *kmsg.FetchRequest) batch.Batch {
	w.t.Helper()
	b, _, err := batch.Next(w.fetchedPartition(req).RecordBatches)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// describeFetched says what is in an answer: base offsets, and the three offsets
// of the partition.
func describeFetched(p *kmsg.FetchResponseTopicPartition) string {
	bases := []int64{}
	for rest := p.RecordBatches; len(rest) > 0; {
		b, tail, err := batch.Next(rest)
		if err != nil {
			return err.Error()
		}
		bases, rest = append(bases, b.BaseOffset()), tail
	}
	return fmt.Sprintf("%s %v hw=%d lso=%d start=%d", protocol.Error(p.ErrorCode), bases, p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
}

func TestFetchVersions(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	w.mustProduce("t", 3)
	w.mustProduce("t", 2)
	for version := int16(4); version <= 18; version++ {
		p := w.fetchedPartition(fetchRequest(version, "t", 0))
		want := "NONE [0 3] hw=5 lso=5 start=0"
		if version < 5 {
			want = "NONE [0 3] hw=5 lso=5 start=-1"
		}
		if got := describeFetched(p); got != want {
			t.Errorf("version %d: %s", version, got)
		}
		if p.AbortedTransactions != nil {
			t.Errorf("version %d: aborted transactions %v", version, p.AbortedTransactions)
		}
	}
}

func TestFetchAnswers(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	w.mustProduce("t", 3)
	zstd := worldConfig()
	zstd.Recompress, zstd.Codec = true, batch.CodecZstd
	w.config["zstd"] = zstd
	w.topic("zstd", 1, 1)
	const refused = " [] hw=-1 lso=-1 start=-1"
	for _, tc := range []struct {
		name    string
		version int16
		topic   string
		change  func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
		want    string
		null    bool // the aborted transactions
	}{
		{"from the middle of a batch", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 1 }, "NONE [0] hw=3 lso=3 start=0", true},
		{"at the end", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 3 }, "NONE [] hw=3 lso=3 start=0", true},
		{"beyond the end", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 4 }, "OFFSET_OUT_OF_RANGE" + refused, true},
		{"negative", 4, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -1 }, "OFFSET_OUT_OF_RANGE [] hw=-1 lso=-1 start=-1", true},
		{"read committed", 12, "t", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.IsolationLevel = 1 }, "NONE [0] hw=3 lso=3 start=0", false},
		{"isolation of two", 12, "t", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.IsolationLevel = 2 }, "UNKNOWN_SERVER_ERROR" + refused, false},
		{"negative limits", 12, "t", func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			r.MaxBytes, p.PartitionMaxBytes = -1, -1
		}, "UNKNOWN_SERVER_ERROR" + refused, true},
		{"no such topic", 12, "none", nil, "UNKNOWN_TOPIC_OR_PARTITION" + refused, false},
		{"no such id", 13, "none", nil, "UNKNOWN_TOPIC_ID" + refused, false},
		{"no such partition", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 5 }, "UNKNOWN_TOPIC_OR_PARTITION" + refused, false},
		{"partition of minus one", 13, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = -1 }, "UNKNOWN_TOPIC_OR_PARTITION" + refused, false},
		{"leader epoch of the future", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 7 }, "UNKNOWN_LEADER_EPOCH" + refused, true},
		{"leader epoch of minus two", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = -2 }, "NONE [0] hw=3 lso=3 start=0", true},
		{"last epoch of the future", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = 5 }, "OFFSET_OUT_OF_RANGE" + refused, true},
		{"diverging", 12, "t", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			p.FetchOffset, p.LastFetchedEpoch = 9, 0
		}, "NONE [] hw=3 lso=3 start=0", true},
		{"as itself", 12, "t", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.ReplicaID = 1 }, "NOT_LEADER_FOR_PARTITION" + refused, true},
		{"as a stranger", 15, "t", func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			r.ReplicaState.ID, p.CurrentLeaderEpoch = 5, 0
		}, "UNKNOWN_LEADER_EPOCH" + refused, true},
		{"as a debugger", 12, "t", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.ReplicaID = -2 }, "NONE [0] hw=3 lso=3 start=0", true},
		{"zstd for an old client", 9, "zstd", nil, "UNSUPPORTED_COMPRESSION_TYPE" + refused, false},
		{"zstd for a newer client", 10, "zstd", nil, "NONE [] hw=0 lso=0 start=0", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := fetchRequest(tc.version, tc.topic, 0)
			if tc.change != nil {
				tc.change(req, &req.Topics[0].Partitions[0])
			}
			p := w.fetchedPartition(req)
			if got := describeFetched(p); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if null := p.AbortedTransactions == nil; null != tc.null {
				t.Errorf("aborted transactions are null: %v, want %v", null, tc.null)
			}
			if diverges := p.DivergingEpoch.EndOffset >= 0; diverges != (tc.name == "diverging") {
				t.Errorf("diverging epoch %+v", p.DivergingEpoch)
			}
		})
	}
}

// TestFetchLimits: the first batch of an answer comes whole, and everything else
// within the limits.
func TestFetchLimits(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 2)
	for _, partition := range []int32{0, 0, 1} {
		req := produceRequest(13, acksOne, "t", plainBatch(100))
		req.Topics[0].Partitions[0].Partition = partition
		w.ask(req)
	}
	size := int32(len(plainBatch(100)))
	for _, tc := range []struct{ max, partition, first, second int32 }{
		{1 << 20, 1 << 20, 2, 1},
		{1, 1, 1, 0},
		{0, 0, 1, 0},
		{1 << 20, 1, 1, 0},
		{100, 1 << 20, 1, 0},
		{1 << 20, size, 1, 1},
		{2*size + 10, 1 << 20, 2, 0},
		{3 * size, 1 << 20, 2, 1},
	} {
		req := fetchRequest(13, "t", 0)
		req.MaxBytes = tc.max
		req.Topics[0].Partitions[0].PartitionMaxBytes = tc.partition
		second := req.Topics[0].Partitions[0]
		second.Partition = 1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
		got := w.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions
		if a, b := int32(len(got[0].RecordBatches))/size, int32(len(got[1].RecordBatches))/size; a != tc.first || b != tc.second {
			t.Errorf("limits %d and %d: %d and %d batches, want %d and %d", tc.max, tc.partition, a, b, tc.first, tc.second)
		}
	}
}

func TestFetchListedTwice(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	w.mustProduce("t", 1)
	for _, many := range []bool{false, true} {
		req := fetchRequest(12, "t", 0)
		twice := req.Topics[0].Partitions[0]
		twice.FetchOffset = 1
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, twice)
		if many {
			for i := range fewPartitions {
				none := twice
				none.Partition = int32(100 + i)
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, none)
			}
		}
		resp := w.ask(req).(*kmsg.FetchResponse)
		if got := describeFetched(&resp.Topics[0].Partitions[0]); got != "NONE [] hw=1 lso=1 start=0" {
			t.Errorf("answer %s", got)
		}
	}
}

// TestFetchWaits: when a fetch is answered (procedure 8).
func TestFetchWaits(t *testing.T) {
	for _, tc := range []struct {
		name             string
		maxWait          int32 // ms
		minBytes         int32
		offset           int64
		nothing          bool // asked for
		want             time.Duration
		appendAt, lostAt time.Duration
	}{
		{name: "no wait allowed", maxWait: 0, minBytes: 100, want: 0},
		{name: "negative wait", maxWait: -1, minBytes: 1, want: 0},
		{name: "no bytes wanted", maxWait: 5000, minBytes: 0, want: 0},
		{name: "nothing asked for", maxWait: 5000, minBytes: 1, nothing: true, want: 0},
		{name: "an error", maxWait: 5000, minBytes: 1, offset: 9, want: 0},
		{name: "until the deadline", maxWait: 700, minBytes: 1, want: 700 * time.Millisecond},
		{name: "until a record comes", maxWait: 5000, minBytes: 1, appendAt: time.Second, want: time.Second},
		{name: "until enough come", maxWait: 5000, minBytes: 150, appendAt: time.Second, want: 2 * time.Second},
		{name: "until too few have come", maxWait: 2500, minBytes: 100_000, appendAt: time.Second, want: 2500 * time.Millisecond},
		{name: "until the leader is another", maxWait: 5000, minBytes: 1, lostAt: time.Second, want: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDataWorld(t)
				id := w.topic("t", 1, 1)
				if tc.appendAt > 0 {
					go func() {
						for range 2 {
							time.Sleep(tc.appendAt)
							w.mustProduce("t", 1)
						}
					}()
				}
				if tc.lostAt > 0 {
					go func() { time.Sleep(tc.lostAt); w.lead(id, 2) }()
				}
				req := fetchRequest(12, "t", tc.offset)
				req.MaxWaitMillis, req.MinBytes = tc.maxWait, tc.minBytes
				req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
				if tc.nothing {
					req.Topics = nil
				}
				begin := time.Now()
				resp := w.ask(req).(*kmsg.FetchResponse)
				if got := time.Since(begin); got != tc.want {
					t.Errorf("answered after %v, want %v", got, tc.want)
				}
				switch {
				case tc.nothing:
				case tc.lostAt > 0:
					if code := resp.Topics[0].Partitions[0].ErrorCode; protocol.Error(code) != protocol.ErrFencedLeaderEpoch {
						t.Errorf("error %d", code)
					}
				case tc.appendAt > 0:
					if len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
						t.Error("no records")
					}
				}
				time.Sleep(time.Minute) // let the producer end
			})
		})
	}
}

func TestFetchCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("t", 1, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := fetchRequest(12, "t", 0)
		req.MaxWaitMillis = 60_000
		begin := time.Now()
		a := complete(ctx, w.fetch.Handle(ctx, w.request(req)))
		if !errors.Is(a.Close, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("answer %+v after %v", a, time.Since(begin))
		}
	})
}

// TestFetchFromNewLeader: who takes this broker for the leader is told where it is,
// from v16 on (KIP-951).
func TestFetchFromNewLeader(t *testing.T) {
	w := newDataWorld(t)
	id := w.topic("t", 1, 1, 1, 2)
	w.lead(id, 2)
	for _, version := range []int16{15, 16} {
		req := fetchRequest(version, "t", 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = 0
		resp := w.ask(req).(*kmsg.FetchResponse)
		p := &resp.Topics[0].Partitions[0]
		if protocol.Error(p.ErrorCode) != protocol.ErrFencedLeaderEpoch {
			t.Fatalf("version %d: %+v", version, p)
		}
		told := p.CurrentLeader.LeaderID == 2 && p.CurrentLeader.LeaderEpoch == 1 && len(resp.Brokers) == 1 && resp.Brokers[0].Host == "two"
		if told != (version >= 16) {
			t.Errorf("version %d: leader %+v at %+v", version, p.CurrentLeader, resp.Brokers)
		}
	}
}

// TestSessionOfRecreatedTopic: a session by id is told what became of its topic.
func TestSessionOfRecreatedTopic(t *testing.T) {
	w := newDataWorld(t)
	first := w.topic("t", 1, 1)
	w.mustProduce("t", 1)
	req := fetchRequest(13, "t", 1)
	req.SessionEpoch = 0
	session := w.ask(req).(*kmsg.FetchResponse).SessionID
	next := func() protocol.Error {
		t.Helper()
		req.SessionEpoch++
		again := kmsg.NewPtrFetchRequest()
		again.Version, again.SessionID, again.SessionEpoch = 13, session, req.SessionEpoch
		resp := w.ask(again).(*kmsg.FetchResponse)
		if len(resp.Topics) == 0 {
			return protocol.None
		}
		return protocol.Error(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if code := next(); code != protocol.None {
		t.Errorf("unchanged: %v", code)
	}
	w.apply(&record.RemoveTopic{TopicID: first})
	if code := next(); code != protocol.ErrUnknownTopicOrPartition {
		t.Errorf("deleted: %v", code)
	}
	w.topic("t", 2, 1)
	if code := next(); code != protocol.ErrInconsistentTopicID {
		t.Errorf("created anew: %v", code)
	}
}

// TestFetchReleases: a parked or refused fetch holds no file of a segment.
func TestFetchReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("t", 1, 1)
		w.mustProduce("t", 1)
		run := w.fetch.newRun(fetchRequest(12, "t", 0), w.request(fetchRequest(12, "t", 0)))
		run.addWanted(fetchRequest(12, "t", 0))
		w.fetch.resolve(run)
		run.read()
		if run.items[0].fetched.Records == nil {
			t.Fatal("nothing was read")
		}
		run.minBytes, run.deadline = 1<<20, time.Now().Add(time.Second)
		answer := make(chan server.Answer, 1)
		go func() { answer <- run.wait(t.Context()) }()
		synctest.Wait()
		if run.items[0].fetched.Records != nil {
			t.Error("the parked fetch holds what it read")
		}
		w.mustProduce("t", 1) // too little: it reads, and parks again
		for _, p := range (<-answer).Parts {
			if p.Region != nil {
				p.Region.Release() // panics if it was released before
			}
		}
	})
}

// TestFetchAllocations: what a fetch costs does not depend on its records.
func TestFetchAllocations(t *testing.T) {
	w := newDataWorld(t)
	w.topic("few", 1, 1)
	w.topic("many", 1, 1)
	w.mustProduce("few", 1)
	for range 20 {
		w.mustProduce("many", 500)
	}
	cost := func(topic string) float64 {
		req := w.request(fetchRequest(12, topic, 0))
		return testing.AllocsPerRun(50, func() {
			for _, p := range w.fetch.Handle(t.Context(), req).Parts {
				if p.Region != nil {
					p.Region.Release()
				}
			}
		})
	}
	few, many := cost("few"), cost("many")
	t.Logf("%v allocations for one batch of one record, %v for 20 of 500", few, many)
	if many > few+1 || few > 12 {
		t.Errorf("%v allocations for one batch of one record, %v for 20 of 500", few, many)
	}
}
