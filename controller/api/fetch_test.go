package api

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/raftlog"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// source is a controller's metadata log with a leadership that a test sets.
type source struct {
	t *testing.T
	*handlers
	log            *storage.Log
	fs             *vfs.Mem
	leadership     raftlog.Leadership
	grown, changed chan struct{}
}

// newSource has offsets 0 to 1 of epoch 2, 2 to 4 of epoch 3, and leads in epoch 5.
func newSource(t *testing.T) *source {
	s := &source{
		t: t, fs: vfs.NewMem(), grown: make(chan struct{}), changed: make(chan struct{}),
		leadership: raftlog.Leadership{Leading: true, Epoch: 5, Leader: 1},
	}
	for _, dir := range []string{"/data", "/data/log"} {
		if err := s.fs.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	cfg := storage.DefaultLogConfig()
	cfg.SegmentIndexBytes = 4096
	log, err := storage.OpenLog(s.fs, "/data/log", storage.LogOptions{Config: cfg, TopicID: protocol.MetadataTopicID, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.log = log
	s.append(0, 2, 2)
	s.append(2, 3, 3)
	s.handlers = &handlers{Config: Config{Log: zerolog.Nop(), Metadata: &MetadataLog{
		ClusterID: "c", Log: log, FS: s.fs, Dir: "/data/log",
		Leadership: func() (raftlog.Leadership, <-chan struct{}) { return s.leadership, s.changed },
		Grown:      func() <-chan struct{} { return s.grown },
		Endpoint: func(id protocol.NodeID) (string, uint16, bool) {
			return fmt.Sprintf("c%d", id), 9093, id >= 0
		},
	}}}
	return s
}

// append appends n records of an epoch.
func (s *source) append(base int64, epoch protocol.ControllerEpoch, n int) {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = &record.NoOp{}
	}
	if _, err := s.log.AppendAsFollower(record.EncodeBatch(recs, feature.Latest, base, epoch, 0)); err != nil {
		s.t.Fatal(err)
	}
}

// checkpoint writes one and returns its bytes.
func (s *source) checkpoint(id snapshot.ID) []byte {
	var file bytes.Buffer
	w, err := snapshot.Create(s.fs, "/data/log", id)
	if err == nil {
		_, err = snapshot.Encode(&file, id.Epoch, snapshot.Header{}, slices.Values([]record.Record{&record.Topic{Name: "t"}}))
	}
	if err == nil {
		_, err = w.Write(file.Bytes())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return file.Bytes()
}

func metadataFetch(offset int64, lastEpoch, epoch int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.ReplicaState.ID = 18, 1<<20, 7
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.LastFetchedEpoch, p.CurrentLeaderEpoch = offset, lastEpoch, epoch
	req.Topics = []kmsg.FetchRequestTopic{{TopicID: protocol.MetadataTopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

func (s *source) handle(req *kmsg.FetchRequest) server.Answer {
	return s.fetch(s.t.Context(), &server.Request{Key: 1, Version: req.Version, Body: req, Received: time.Now()})
}

func (s *source) answered(a server.Answer) string {
	s.t.Helper()
	resp, ok := a.Response.(*kmsg.FetchResponse)
	if !ok {
		s.t.Fatalf("answer %+v", a)
	}
	if resp.ErrorCode != 0 {
		return protocol.Error(resp.ErrorCode).Error()
	}
	p := resp.Topics[0].Partitions[0]
	var out []string
	if p.ErrorCode != 0 {
		out = append(out, protocol.Error(p.ErrorCode).Error())
	}
	if len(p.RecordBatches) > 0 {
		out = append(out, fmt.Sprintf("records at %d", int64(p.RecordBatches[7])))
	}
	if p.DivergingEpoch.EndOffset >= 0 {
		out = append(out, fmt.Sprintf("epoch %d ends at %d", p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset))
	}
	if p.SnapshotID.EndOffset >= 0 {
		out = append(out, fmt.Sprintf("snapshot %d-%d", p.SnapshotID.EndOffset, p.SnapshotID.Epoch))
	}
	for _, b := range resp.Brokers {
		out = append(out, fmt.Sprintf("leader %d of epoch %d at %s:%d", p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, b.Host, b.Port))
	}
	return strings.Join(append(out, fmt.Sprintf("high watermark %d", p.HighWatermark)), ", ")
}

func TestFetchMetadataLog(t *testing.T) {
	const leads = ", leader 1 of epoch 5 at c1:9093, high watermark "
	for _, c := range []struct {
		name string
		set  func(*source, *kmsg.FetchRequest)
		req  *kmsg.FetchRequest
		want string
	}{
		{"records", nil, metadataFetch(0, 0, 5), "records at 0" + leads + "5"},
		{"behind a batch", nil, metadataFetch(2, 2, 5), "records at 2" + leads + "5"},
		{"nothing new", nil, metadataFetch(5, 3, 5), leads[2:] + "5"},
		{"an epoch that has passed", nil, metadataFetch(5, 3, 4), "FENCED_LEADER_EPOCH" + leads + "-1"},
		{"an epoch to come", nil, metadataFetch(5, 3, 6), "UNKNOWN_LEADER_EPOCH" + leads + "-1"},
		{"not the leader", func(s *source, _ *kmsg.FetchRequest) {
			s.leadership = raftlog.Leadership{Epoch: 5, Leader: 2}
		}, metadataFetch(5, 3, 5), "NOT_LEADER_FOR_PARTITION, leader 2 of epoch 5 at c2:9093, high watermark -1"},
		{"no leader", func(s *source, _ *kmsg.FetchRequest) {
			s.leadership = raftlog.Leadership{Epoch: 5, Leader: -1}
		}, metadataFetch(5, 3, 5), "NOT_LEADER_FOR_PARTITION, high watermark -1"},
		{"longer in an epoch", nil, metadataFetch(9, 2, 5), "epoch 2 ends at 2" + leads + "5"},
		{"beyond the end", nil, metadataFetch(9, 3, 5), "epoch 3 ends at 5" + leads + "5"},
		{"an epoch that never was", nil, metadataFetch(9, 4, 5), "epoch 3 ends at 5" + leads + "5"},
		{"an epoch before all", nil, metadataFetch(3, 1, 5), "epoch 1 ends at 0" + leads + "5"},
		{"nothing, where there is a checkpoint", func(s *source, _ *kmsg.FetchRequest) {
			s.checkpoint(snapshot.ID{Offset: 2, Epoch: 2})
		}, metadataFetch(0, 0, 5), "snapshot 2-2" + leads + "5"},
		{"an offset that is gone", func(s *source, _ *kmsg.FetchRequest) {
			s.startAt(10, 3)
		}, metadataFetch(5, 3, 5), "snapshot 10-3" + leads + "12"},
		{"behind the checkpoint", func(s *source, _ *kmsg.FetchRequest) {
			s.startAt(10, 3)
		}, metadataFetch(10, 3, 5), "records at 10" + leads + "12"},
		{"another history behind the checkpoint", func(s *source, _ *kmsg.FetchRequest) {
			s.startAt(10, 3)
		}, metadataFetch(10, 2, 5), "snapshot 10-3" + leads + "12"},
		{"behind a checkpoint from before the log's start", func(s *source, _ *kmsg.FetchRequest) {
			s.checkpoint(snapshot.ID{Offset: 5, Epoch: 3})
			s.startAt(10, 3)
		}, metadataFetch(5, 3, 5), "snapshot 10-3" + leads + "12"},
		{"another cluster", func(_ *source, r *kmsg.FetchRequest) { r.ClusterID = kmsg.StringPtr("d") }, metadataFetch(0, 0, 5), "INCONSISTENT_CLUSTER_ID"},
		{"another topic", func(_ *source, r *kmsg.FetchRequest) { r.Topics[0].TopicID = [16]byte{9} }, metadataFetch(0, 0, 5), "INVALID_REQUEST"},
		{"by name", func(_ *source, r *kmsg.FetchRequest) {
			r.Version, r.Topics[0].Topic = 12, protocol.MetadataTopic
		}, metadataFetch(0, 0, 5), "records at 0" + leads + "5"},
		{"a negative offset", nil, metadataFetch(-1, 0, 5), "INVALID_REQUEST" + leads + "-1"},
		{"a record of the future", nil, metadataFetch(5, 6, 5), "INVALID_REQUEST" + leads + "-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSource(t)
			if c.set != nil {
				c.set(s, c.req)
			}
			if got := s.answered(s.handle(c.req)); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// startAt lets the log begin behind a checkpoint, with two records of epoch 4.
func (s *source) startAt(offset int64, epoch protocol.ControllerEpoch) {
	s.checkpoint(snapshot.ID{Offset: offset, Epoch: epoch})
	if err := s.log.TruncateFullyAndStartAt(offset); err != nil {
		s.t.Fatal(err)
	}
	s.append(offset, 4, 2)
}

// A fetch that has everything waits for records, for the end of this leadership,
// or for its time.
func TestFetchWaits(t *testing.T) {
	for name, c := range map[string]struct {
		event func(*source)
		want  string
	}{
		"records": {func(s *source) { s.append(5, 5, 1); close(s.grown) }, "records at 5, leader 1 of epoch 5 at c1:9093, high watermark 6"},
		"another leader": {func(s *source) {
			s.leadership = raftlog.Leadership{Epoch: 6, Leader: 2}
			close(s.changed)
		}, "FENCED_LEADER_EPOCH, leader 2 of epoch 6 at c2:9093, high watermark -1"},
		"nothing": {func(*source) {}, "leader 1 of epoch 5 at c1:9093, high watermark 5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(t)
				req := metadataFetch(5, 3, 5)
				req.MaxWaitMillis = 500
				a := s.handle(req)
				if a.Wait == nil {
					t.Fatalf("answered at once: %s", s.answered(a))
				}
				began, done := time.Now(), make(chan server.Answer)
				go func() { done <- a.Wait(t.Context()) }()
				time.Sleep(100 * time.Millisecond)
				c.event(s)
				if got := s.answered(<-done); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
				if took := time.Since(began); (took < 500*time.Millisecond) != (name != "nothing") {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

// A high watermark that the follower does not know is news.
func TestFetchTellsTheHighWatermark(t *testing.T) {
	s := newSource(t)
	req := metadataFetch(5, 3, 5)
	req.MaxWaitMillis, req.Topics[0].Partitions[0].HighWatermark = 500, 4
	if a := s.handle(req); a.Wait != nil {
		t.Error("the fetch waits")
	}
	req.Topics[0].Partitions[0].HighWatermark = 5
	if a := s.handle(req); a.Wait == nil {
		t.Error("the fetch does not wait")
	}
}

func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t)
		began := time.Now()
		printed := func() (out []string) {
			for _, o := range s.observers.list(5, time.Now()) {
				caughtUp := "never"
				if !o.caughtUp.IsZero() {
					caughtUp = o.caughtUp.Sub(began).String()
				}
				out = append(out, fmt.Sprintf("%d at %d, fetched %v, caught up %s", o.id, o.leo, o.fetched.Sub(began), caughtUp))
			}
			return out
		}
		check := func(want ...string) {
			t.Helper()
			if got := printed(); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		s.handle(metadataFetch(0, 0, 5))
		check("7 at 0, fetched 0s, caught up never")
		time.Sleep(time.Second)
		s.append(5, 5, 1)
		s.handle(metadataFetch(5, 3, 5)) // all that there was at the first fetch
		check("7 at 5, fetched 1s, caught up 0s")
		time.Sleep(time.Second)
		s.handle(metadataFetch(6, 5, 5))
		check("7 at 6, fetched 2s, caught up 2s")
		consumer := metadataFetch(6, 5, 5)
		consumer.ReplicaState.ID = -1
		s.handle(consumer)
		check("7 at 6, fetched 2s, caught up 2s")
		time.Sleep(observerSession)
		check()
	})
}

func TestFetchSnapshotPieces(t *testing.T) {
	s := newSource(t)
	id := snapshot.ID{Offset: 2, Epoch: 2}
	file := s.checkpoint(id)
	ask := func(id snapshot.ID, position int64, epoch, maxBytes int32) *kmsg.FetchSnapshotResponse {
		req := kmsg.NewPtrFetchSnapshotRequest()
		req.MaxBytes = maxBytes
		p := kmsg.NewFetchSnapshotRequestTopicPartition()
		p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.Offset, int32(id.Epoch)
		p.Position, p.CurrentLeaderEpoch = position, epoch
		req.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: protocol.MetadataTopic, Partitions: []kmsg.FetchSnapshotRequestTopicPartition{p}}}
		resp, err := s.fetchSnapshot(call{body: req})(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.FetchSnapshotResponse)
	}
	var got []byte
	for len(got) < len(file) {
		p := ask(id, int64(len(got)), 5, 30).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.Size != int64(len(file)) || p.Position != int64(len(got)) || len(p.Bytes) == 0 {
			t.Fatalf("at %d: %+v", len(got), p)
		}
		got = append(got, p.Bytes...)
	}
	if !bytes.Equal(got, file) {
		t.Error("the pieces are not the file")
	}
	for _, c := range []struct {
		name string
		resp *kmsg.FetchSnapshotResponse
		want protocol.Error
	}{
		{"behind the end", ask(id, int64(len(file)), 5, 30), protocol.ErrPositionOutOfRange},
		{"before the start", ask(id, -1, 5, 30), protocol.ErrPositionOutOfRange},
		{"one that is not there", ask(snapshot.ID{Offset: 3, Epoch: 2}, 0, 5, 30), protocol.ErrSnapshotNotFound},
		{"the first records", ask(snapshot.ID{}, 0, 5, 30), protocol.ErrSnapshotNotFound},
		{"an old epoch", ask(id, 0, 4, 30), protocol.ErrFencedLeaderEpoch},
	} {
		if code := c.resp.Topics[0].Partitions[0].ErrorCode; code != int16(c.want) {
			t.Errorf("%s: %v, want %v", c.name, protocol.Error(code), c.want)
		}
		if c.resp.NodeEndpoints[0].Host != "c1" {
			t.Errorf("%s: the leader is at %+v", c.name, c.resp.NodeEndpoints)
		}
	}
}
