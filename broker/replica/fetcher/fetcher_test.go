package fetcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/quota"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

var topicID = protocol.UUID{'T'}

// leader is broker 2 as a script: what it answers to each request in turn.
type leader struct {
	requests chan kmsg.Request
	answers  chan any // a kmsg.Response or an error
}

func (l *leader) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	l.requests <- req
	select {
	case answer := <-l.answers:
		if err, ok := answer.(error); ok {
			return nil, err
		}
		return answer.(kmsg.Response), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *leader) Close() error { return nil }

// world is broker 1 with partitions of topic t that broker 2 leads.
type world struct {
	*leader
	dials   atomic.Int32
	pool    *Pool
	fs      *vfs.Mem
	manager *replica.Manager
	img     *metadata.Image
}

// throttled is what the topic's throttle names.
var throttled quota.Replicas

// run builds the world in a bubble, with so many partitions.
func run(t *testing.T, partitions int, do func(w *world)) {
	runWith(t, partitions, storage.DefaultLogConfig(), do)
}

// runWith is run with a configuration of the logs.
func runWith(t *testing.T, partitions int, config storage.LogConfig, do func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{leader: &leader{requests: make(chan kmsg.Request, 100), answers: make(chan any, 100)}}
		pool := New(Config{
			Node: 1, Epoch: func() protocol.BrokerEpoch { return 7 },
			Addr: func(protocol.NodeID) (string, bool) { return "b2:9092", true },
			Dial: func(context.Context, string) (Conn, error) { w.dials.Add(1); return w.leader, nil },
		}, zerolog.Nop())
		w.pool = pool
		fs := vfs.NewMem()
		w.fs = fs
		meta := storage.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{9}}
		if err := storage.Format(fs, "/data", meta, time.Now()); err != nil {
			t.Fatal(err)
		}
		dir, err := storage.OpenDir(fs, "/data", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		store, err := storage.OpenStore(t.Context(), fs, []*storage.Dir{dir}, storage.DefaultStoreConfig(), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		w.manager = replica.NewManager(replica.Config{
			Node: 1, Store: replica.NewStore(store), Puller: pool,
			TopicConfig: func(*metadata.Image, string) replica.TopicConfig {
				return replica.TopicConfig{Log: config, MinInSyncReplicas: 1, FollowerThrottled: throttled}
			},
		}, zerolog.Nop())
		w.img = metadata.Empty()
		recs := []record.Record{&record.Topic{Name: "t", TopicID: topicID}}
		for id := range int32(partitions) {
			recs = append(recs, &record.Partition{
				PartitionID: id, TopicID: topicID, Leader: 2, LeaderEpoch: 3,
				Replicas: []protocol.NodeID{2, 1}, ISR: []protocol.NodeID{2, 1}, Directories: make([]protocol.UUID, 2),
			})
		}
		w.replay(t, recs...)
		do(w)
		pool.Close()
		if err := store.Close(1, w.manager.HighWatermarks()); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) replay(t *testing.T, recs ...record.Record) {
	t.Helper()
	delta := metadata.NewDelta(w.img)
	for _, rec := range recs {
		if err := delta.Replay(rec); err != nil {
			t.Fatal(err)
		}
	}
	w.img = delta.Apply(w.img.Offset()+1, 1, 0)
	w.manager.Apply(delta, w.img)
}

// fetch takes the next request, which is to be a fetch.
func (w *world) fetch(t *testing.T) *kmsg.FetchRequest {
	t.Helper()
	req, ok := (<-w.requests).(*kmsg.FetchRequest)
	if !ok {
		t.Fatal("the request is no fetch")
	}
	return req
}

// partitions are the ids that a fetch names.
func partitions(req *kmsg.FetchRequest) (ids []int32) {
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			ids = append(ids, p.Partition)
		}
	}
	return ids
}

// answer is one with partitions as they are set.
func answer(session int32, parts ...func(*kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.SessionID = session
	topic := kmsg.NewFetchResponseTopic()
	topic.TopicID = topicID
	for _, set := range parts {
		p := kmsg.NewFetchResponseTopicPartition()
		set(&p)
		topic.Partitions = append(topic.Partitions, p)
	}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// records is a batch of n records from an offset on, of epoch 3.
func records(t *testing.T, offset int64, n int) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.Options{})
	for range n {
		b.Append(batch.Record{Value: []byte("v")})
	}
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	one, _, err := batch.Next(built)
	if err != nil {
		t.Fatal(err)
	}
	one.SetBaseOffset(offset)
	one.SetLeaderEpoch(3)
	return one
}

func (w *world) wantEnd(t *testing.T, id int32, end, highWatermark int64) {
	t.Helper()
	synctest.Wait()
	p, ok := w.manager.Partition(topicID, id)
	if !ok {
		t.Fatal("no partition", id)
	}
	at, _ := p.Position()
	if at.Offset != end || at.HighWatermark != highWatermark {
		t.Fatalf("partition %d ends at %d with high watermark %d, want %d and %d", id, at.Offset, at.HighWatermark, end, highWatermark)
	}
}

// TestSession: after the first fetch only what is different is asked for, and an
// answer that is cut short, or does not match its CRC, brings what is whole.
func TestSession(t *testing.T) {
	run(t, 2, func(w *world) {
		first := w.fetch(t)
		if got := partitions(first); !slices.Equal(got, []int32{0, 1}) || first.SessionEpoch != 0 || first.ReplicaState.ID != 1 || first.ReplicaState.Epoch != 7 {
			t.Fatalf("first fetch: %v, %+v", got, first)
		}
		if p := first.Topics[0].Partitions[0]; p.CurrentLeaderEpoch != 3 || p.FetchOffset != 0 || p.LastFetchedEpoch != -1 {
			t.Fatalf("partition 0: %+v", p)
		}
		two := append(records(t, 0, 2), records(t, 2, 3)...)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) {
			p.Partition, p.RecordBatches, p.HighWatermark = 1, two[:len(two)-1], 1
		})
		second := w.fetch(t)
		w.wantEnd(t, 1, 2, 1)
		if got := partitions(second); !slices.Equal(got, []int32{1}) || second.SessionID != 9 || second.SessionEpoch != 1 {
			t.Fatalf("second fetch: %v, %+v", got, second)
		}
		if p := second.Topics[0].Partitions[0]; p.FetchOffset != 2 || p.LastFetchedEpoch != 3 || p.HighWatermark != 1 {
			t.Fatalf("partition 1: %+v", p)
		}
		// Partition 0 goes: the session forgets it.
		w.replay(t, &record.PartitionChange{
			TopicID: topicID, PartitionID: 0, Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged,
			Replicas: []protocol.NodeID{2}, ISR: []protocol.NodeID{2},
		})
		w.answers <- answer(9)
		if third := w.fetch(t); len(third.Topics) != 0 || len(third.ForgottenTopics) != 1 || third.SessionEpoch != 2 {
			t.Fatalf("third fetch: %+v", third)
		}
		// The leader forgot the session: all again.
		lost := answer(0)
		lost.ErrorCode = int16(protocol.ErrFetchSessionIDNotFound)
		w.answers <- lost
		if fourth := w.fetch(t); !slices.Equal(partitions(fourth), []int32{1}) || fourth.SessionID != 0 || fourth.SessionEpoch != 0 {
			t.Fatalf("fourth fetch: %+v", fourth)
		}
	})
}

// TestDiverging: the log is cut back to where the leader's parts from it.
func TestDiverging(t *testing.T) {
	run(t, 1, func(w *world) {
		w.fetch(t)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) {
			p.RecordBatches = append(records(t, 0, 2), records(t, 2, 2)...)
		})
		w.fetch(t)
		w.wantEnd(t, 0, 4, 0)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 3, 2
		})
		if req := w.fetch(t); req.Topics[0].Partitions[0].FetchOffset != 2 {
			t.Fatalf("fetch %+v", req)
		}
		w.wantEnd(t, 0, 2, 0)
	})
}

// TestRest: a partition with an error rests, the others go on; a new leader epoch
// ends the rest.
func TestRest(t *testing.T) {
	run(t, 2, func(w *world) {
		w.fetch(t)
		spoilt := records(t, 0, 1)
		spoilt[len(spoilt)-1] ^= 1
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = int16(protocol.ErrNotLeaderForPartition) },
			func(p *kmsg.FetchResponseTopicPartition) { p.Partition, p.RecordBatches = 1, spoilt })
		start := time.Now()
		w.wantEnd(t, 1, 0, 0)
		w.replay(t, &record.PartitionChange{
			TopicID: topicID, PartitionID: 1, Leader: 2, LeaderRecovery: record.RecoveryUnchanged,
		})
		if req := w.fetch(t); !slices.Equal(partitions(req), []int32{1}) || req.Topics[0].Partitions[0].CurrentLeaderEpoch != 4 || time.Since(start) > 0 {
			t.Fatalf("fetch %+v after %v", req, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		w.answers <- answer(9)
		if req := w.fetch(t); !slices.Equal(partitions(req), []int32{0}) {
			t.Fatalf("fetch %+v", req)
		}
	})
}

// TestRestBoundsFetch: a fetch of the others does not outlast a partition's rest.
func TestRestBoundsFetch(t *testing.T) {
	run(t, 2, func(w *world) {
		w.fetch(t)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = int16(protocol.ErrUnknownLeaderEpoch) })
		req := w.fetch(t)
		if most := firstRest + time.Millisecond; len(partitions(req)) != 0 || time.Duration(req.MaxWaitMillis)*time.Millisecond > most {
			t.Fatalf("fetch of %v waits %d ms, want %v", partitions(req), req.MaxWaitMillis, most)
		}
		time.Sleep(time.Duration(req.MaxWaitMillis) * time.Millisecond)
		w.answers <- answer(9)
		if req := w.fetch(t); !slices.Equal(partitions(req), []int32{0}) || req.MaxWaitMillis != 500 {
			t.Fatalf("fetch %+v", req)
		}
	})
}

// TestConnectionLost: another connection, another session, in place of the one that was.
func TestConnectionLost(t *testing.T) {
	run(t, 1, func(w *world) {
		w.fetch(t)
		w.answers <- answer(9)
		w.fetch(t)
		w.answers <- errors.New("connection reset")
		if req := w.fetch(t); w.dials.Load() != 2 || req.SessionID != 9 || req.SessionEpoch != 0 {
			t.Fatalf("after %d dials: %+v", w.dials.Load(), req)
		}
	})
}

// TestStartOver: the leader has deleted what comes next here.
func TestStartOver(t *testing.T) {
	run(t, 1, func(w *world) {
		w.fetch(t)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = int16(protocol.ErrOffsetOutOfRange) })
		for _, offset := range []int64{40, 50} {
			req, ok := (<-w.requests).(*kmsg.ListOffsetsRequest)
			if !ok || req.Topics[0].Partitions[0].CurrentLeaderEpoch != 3 {
				t.Fatalf("request %+v", req)
			}
			resp := kmsg.NewPtrListOffsetsResponse()
			topic := kmsg.NewListOffsetsResponseTopic()
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Offset = offset
			topic.Partitions = append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
			w.answers <- resp
		}
		if req := w.fetch(t); req.Topics[0].Partitions[0].FetchOffset != 40 {
			t.Fatalf("fetch %+v", req)
		}
		w.wantEnd(t, 0, 40, 40)
	})
}

// TestRecordsBeforeNextRequest: the memory of an answer is used again for the next one,
// so its records are taken before the leader is asked where its log starts.
func TestRecordsBeforeNextRequest(t *testing.T) {
	run(t, 2, func(w *world) {
		w.fetch(t)
		kept := records(t, 0, 2)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = int16(protocol.ErrOffsetOutOfRange) },
			func(p *kmsg.FetchResponseTopicPartition) { p.Partition, p.RecordBatches = 1, kept })
		if req, ok := (<-w.requests).(*kmsg.ListOffsetsRequest); !ok {
			t.Fatalf("request %+v", req)
		}
		clear(kept)
		w.answers <- errors.New("connection reset")
		if req := w.fetch(t); !slices.Equal(partitions(req), []int32{0, 1}) || req.Topics[0].Partitions[1].FetchOffset != 2 {
			t.Fatalf("fetch %+v", req)
		}
	})
}

// TestFullVolume: a replica whose volume is full fetches again what it had no room
// for, and goes on when there is space.
func TestFullVolume(t *testing.T) {
	run(t, 1, func(w *world) {
		full := true
		w.fs.SetHook(func(op vfs.Op) error {
			if full && op.Kind == "write" {
				return syscall.ENOSPC
			}
			return nil
		})
		w.fetch(t)
		for range 2 {
			w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches, p.HighWatermark = records(t, 0, 2), 2 })
			w.wantEnd(t, 0, 0, 0)
			if req := w.fetch(t); req.Topics[0].Partitions[0].FetchOffset != 0 {
				t.Fatalf("fetch %+v", req)
			}
		}
		full = false
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches, p.HighWatermark = records(t, 0, 2), 2 })
		w.fetch(t)
		w.wantEnd(t, 0, 2, 2)
	})
}

// TestFlushBeforeFetch: with flush.messages=1 a fetch says that a replica has
// records once they are synced: a power cut right then takes none of them.
func TestFlushBeforeFetch(t *testing.T) {
	config := storage.DefaultLogConfig()
	config.FlushMessages = 1
	runWith(t, 2, config, func(w *world) {
		w.fetch(t)
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = records(t, 0, 2) },
			func(p *kmsg.FetchResponseTopicPartition) { p.Partition, p.RecordBatches = 1, records(t, 0, 3) })
		req := w.fetch(t)
		after := w.fs.Crash(nil)
		if got := partitions(req); !slices.Equal(got, []int32{0, 1}) {
			t.Fatalf("fetch of %v", got)
		}
		for id, want := range []int{len(records(t, 0, 2)), len(records(t, 0, 3))} {
			file := fmt.Sprintf("/data/t-%d/00000000000000000000.log", id)
			if data, err := vfs.ReadFile(after, file); err != nil || len(data) != want {
				t.Errorf("after a power cut %s has %d bytes, %v, want %d", file, len(data), err, want)
			}
		}
		// A disk that can not sync takes the partition offline, and nobody is told.
		w.fs.SetHook(func(op vfs.Op) error {
			if op.Kind == "sync" {
				return errors.New("input/output error")
			}
			return nil
		})
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = records(t, 2, 1) })
		synctest.Wait()
		w.fs.SetHook(nil)
		for len(w.requests) > 0 {
			if req := w.fetch(t); len(req.Topics) != 0 {
				t.Errorf("after the failure: %+v", req.Topics)
			}
		}
	})
}
