package follower

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/replay"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

const dir = "/data/__cluster_metadata-0"

// world is an observer on its disk, and controllers that answer by a script.
type world struct {
	t       *testing.T
	fs      *vfs.Mem
	log     *storage.Log
	replica *replay.Replayer
	*Follower

	answers  map[string][]any // by address: what is answered in turn, a kmsg.Response or an error
	requests []string         // what was asked
	learned  []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, fs: vfs.NewMem(), answers: make(map[string][]any)}
	for _, d := range []string{"/data", dir} {
		if err := w.fs.Mkdir(d); err != nil {
			t.Fatal(err)
		}
	}
	w.start(0)
	return w
}

// start starts the node, or starts it again on its disk.
func (w *world) start(epoch protocol.ControllerEpoch) {
	w.t.Helper()
	cfg := storage.DefaultLogConfig()
	cfg.SegmentIndexBytes = 4096
	var err error
	if w.log, err = storage.OpenLog(w.fs, dir, storage.LogOptions{Config: cfg, TopicID: protocol.MetadataTopicID, Log: zerolog.Nop()}); err != nil {
		w.t.Fatal(err)
	}
	if w.replica, err = replay.New(replay.Config{Log: w.log, FS: w.fs, Dir: dir, Observer: true}, zerolog.Nop()); err != nil {
		w.t.Fatal(err)
	}
	w.Follower = New(Config{
		NodeID: 7, ClusterID: "c", Replica: w.replica, FS: w.fs, Dir: dir, Epoch: epoch,
		Voters: map[protocol.NodeID]string{1: "c1:9093", 2: "c2:9093"},
		Dial: func(_ context.Context, addr string) (Conn, error) {
			return &conn{w: w, addr: addr}, nil
		},
		Learned: func(leader protocol.NodeID, epoch protocol.ControllerEpoch) error {
			w.learned = append(w.learned, fmt.Sprintf("%d in %d", leader, epoch))
			return nil
		},
	}, zerolog.Nop())
	w.turn = 0
}

// conn is a connection to a controller of the script.
type conn struct {
	w    *world
	addr string
}

func (c *conn) Close() error { return nil }

func (c *conn) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		p := r.Topics[0].Partitions[0]
		c.w.requests = append(c.w.requests, fmt.Sprintf("%s fetch %d after epoch %d in %d, replayed %d",
			c.addr, p.FetchOffset, p.LastFetchedEpoch, p.CurrentLeaderEpoch, p.HighWatermark))
	case *kmsg.FetchSnapshotRequest:
		p := r.Topics[0].Partitions[0]
		c.w.requests = append(c.w.requests, fmt.Sprintf("%s snapshot %d-%d at %d in %d",
			c.addr, p.SnapshotID.EndOffset, p.SnapshotID.Epoch, p.Position, p.CurrentLeaderEpoch))
	}
	script := c.w.answers[c.addr]
	if len(script) == 0 {
		return nil, errors.New("nobody there")
	}
	c.w.answers[c.addr] = script[1:]
	if err, ok := script[0].(error); ok {
		return nil, err
	}
	return script[0].(kmsg.Response), nil
}

// says adds an answer to a controller's script.
func (w *world) says(addr string, answer any) { w.answers[addr] = append(w.answers[addr], answer) }

func (w *world) fetched(leader, epoch int32, set func(*kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	p := kmsg.NewFetchResponseTopicPartition()
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = leader, epoch
	set(&p)
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: protocol.MetadataTopic, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	return resp
}

// records is an answer with a batch of topics, one record each.
func (w *world) records(leader, epoch int32, base, highWatermark int64, topics ...string) *kmsg.FetchResponse {
	return w.fetched(leader, epoch, func(p *kmsg.FetchResponseTopicPartition) {
		p.HighWatermark = highWatermark
		if len(topics) > 0 {
			p.RecordBatches = record.EncodeBatch(topicRecords(topics), feature.Latest, base, protocol.ControllerEpoch(epoch), 1000)
		}
	})
}

func topicRecords(names []string) []record.Record {
	var recs []record.Record
	for _, name := range names {
		recs = append(recs, &record.Topic{Name: name, TopicID: protocol.UUID{name[0], name[len(name)-1]}})
	}
	return recs
}

// refused is an answer with an error and who leads.
func (w *world) refused(code protocol.Error, leader, epoch int32, host string) *kmsg.FetchResponse {
	resp := w.fetched(leader, epoch, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = int16(code) })
	if host != "" {
		resp.Brokers = []kmsg.FetchResponseBroker{{NodeID: leader, Host: host, Port: 9093}}
	}
	return resp
}

// rounds does n rounds; those that are to be tried again are no failure.
func (w *world) rounds(n int) {
	w.t.Helper()
	for range n {
		var again errTryAgain
		if err := w.round(w.t.Context()); err != nil && !errors.As(err, &again) {
			w.t.Fatal(err)
		}
	}
}

func (w *world) topics() string { return topicsOf(w.replica.Image()) }

func topicsOf(img *metadata.Image) string {
	var names []string
	for t := range img.Topics() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (w *world) expect(topics string, requests ...string) {
	w.t.Helper()
	if got := w.topics(); got != topics {
		w.t.Errorf("the image has topics %q, want %q", got, topics)
	}
	if got, want := strings.Join(w.requests, "\n"), strings.Join(requests, "\n"); got != want {
		w.t.Errorf("asked:\n%s\nwant:\n%s", got, want)
	}
	w.requests = nil
}

// The leader is found by asking, at the address that the answer names; what lies
// above its high watermark is kept and not shown.
func TestFollowsTheLeader(t *testing.T) {
	w := newWorld(t)
	w.says("c1:9093", w.refused(protocol.ErrFencedLeaderEpoch, 3, 5, "c3"))
	w.says("c3:9093", w.records(3, 5, 0, 2, "a", "b"))
	w.says("c3:9093", w.records(3, 5, 2, 2, "c", "d"))
	w.says("c3:9093", w.records(3, 5, 4, 4))
	w.rounds(3)
	w.expect("a b", "c1:9093 fetch 0 after epoch 0 in 0, replayed 0",
		"c3:9093 fetch 0 after epoch 0 in 5, replayed 0", "c3:9093 fetch 2 after epoch 5 in 5, replayed 2")
	w.rounds(1)
	w.expect("a b c d", "c3:9093 fetch 4 after epoch 5 in 5, replayed 2")
	if leader, _ := w.Leader(); leader != 3 {
		t.Errorf("leader %d", leader)
	}
	if addr, _ := w.Address(3); addr != "c3:9093" {
		t.Errorf("its address %s", addr)
	}
	if got := strings.Join(w.learned, ", "); got != "3 in 5" {
		t.Errorf("learned %s", got)
	}
}

// A new leader that lacks what was not committed has it cut off here; a restart
// in between shows nothing of it either.
func TestDivergence(t *testing.T) {
	w := newWorld(t)
	w.says("c1:9093", w.refused(protocol.ErrNotLeaderForPartition, 1, 5, ""))
	w.says("c1:9093", w.records(1, 5, 0, 2, "a", "b"))
	w.says("c1:9093", w.records(1, 5, 2, 2, "lost", "gone"))
	w.rounds(3)
	w.requests = nil
	w.start(5)
	w.says("c1:9093", errors.New("connection reset"))
	w.says("c2:9093", w.refused(protocol.ErrFencedLeaderEpoch, 2, 6, ""))
	w.says("c2:9093", w.fetched(2, 6, func(p *kmsg.FetchResponseTopicPartition) {
		p.HighWatermark, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 3, 5, 2
	}))
	w.says("c2:9093", w.records(2, 6, 2, 3, "c"))
	w.rounds(4)
	w.expect("a b c", "c1:9093 fetch 4 after epoch 5 in 5, replayed 0", "c2:9093 fetch 4 after epoch 5 in 5, replayed 0",
		"c2:9093 fetch 4 after epoch 5 in 6, replayed 0", "c2:9093 fetch 2 after epoch 5 in 6, replayed 0")
}

// What was committed is never cut: a leader that asks for it stops the node.
func TestCommittedIsNotCut(t *testing.T) {
	w := newWorld(t)
	w.says("c1:9093", w.refused(protocol.ErrNotLeaderForPartition, 1, 5, ""))
	w.says("c1:9093", w.records(1, 5, 0, 2, "a", "b"))
	w.says("c1:9093", w.fetched(1, 5, func(p *kmsg.FetchResponseTopicPartition) {
		p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 4, 1
	}))
	w.rounds(2)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.Run(ctx); err == nil || !strings.Contains(err.Error(), "two histories") {
		t.Errorf("%v", err)
	}
	if w.log.LEO() != 2 {
		t.Errorf("the log ends at %d", w.log.LEO())
	}
}

// An old leader that lives on, and answers in its epoch, is not listened to; nor
// is a second one of the same epoch.
func TestEpochsDoNotGoBack(t *testing.T) {
	w := newWorld(t)
	w.start(6)
	w.says("c1:9093", w.records(1, 5, 0, 1, "old"))
	w.says("c2:9093", w.refused(protocol.ErrNotLeaderForPartition, 2, 6, ""))
	w.says("c2:9093", w.records(1, 6, 0, 1, "other"))
	w.rounds(3)
	w.expect("", "c1:9093 fetch 0 after epoch 0 in 6, replayed 0",
		"c2:9093 fetch 0 after epoch 0 in 6, replayed 0", "c2:9093 fetch 0 after epoch 0 in 6, replayed 0")
}

// A checkpoint takes the place of everything; a damaged one, a short one and one
// that is gone change nothing and are fetched again.
func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	id := snapshot.ID{Offset: 100, Epoch: 4}
	var file bytes.Buffer
	if _, err := snapshot.Encode(&file, id.Epoch, snapshot.Header{LastTimestampMs: 1}, slices.Values(topicRecords([]string{"x", "y"}))); err != nil {
		t.Fatal(err)
	}
	piece := func(from, to int, data []byte, code protocol.Error) *kmsg.FetchSnapshotResponse {
		p := kmsg.NewFetchSnapshotResponseTopicPartition()
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 1, 5
		p.ErrorCode = int16(code)
		if code == protocol.None {
			p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.Offset, int32(id.Epoch)
			p.Size, p.Position, p.Bytes = int64(file.Len()), int64(from), data[from:to]
		}
		resp := kmsg.NewPtrFetchSnapshotResponse()
		resp.Topics = []kmsg.FetchSnapshotResponseTopic{{Topic: protocol.MetadataTopic, Partitions: []kmsg.FetchSnapshotResponseTopicPartition{p}}}
		return resp
	}
	damaged := bytes.Clone(file.Bytes())
	damaged[len(damaged)/2] ^= 1
	redirect := w.refused(protocol.ErrNotLeaderForPartition, 1, 5, "")
	ask := w.fetched(1, 5, func(p *kmsg.FetchResponseTopicPartition) {
		p.SnapshotID.EndOffset, p.SnapshotID.Epoch = id.Offset, int32(id.Epoch)
	})
	w.says("c1:9093", redirect)
	w.says("c1:9093", w.records(1, 5, 0, 1, "a", "b"))
	w.rounds(2)
	for _, answers := range [][]any{
		{ask, piece(0, 40, damaged, 0), piece(40, file.Len(), damaged, 0)},
		{ask, piece(0, 40, file.Bytes(), 0), errors.New("connection reset")},
		{ask, piece(0, 0, file.Bytes(), protocol.ErrSnapshotNotFound)},
		{ask, piece(0, 40, file.Bytes(), 0), piece(40, file.Len(), file.Bytes(), 0)},
		{w.records(1, 5, 100, 101, "z")},
	} {
		if leader, _ := w.Leader(); leader < 0 {
			w.turn = 0
			w.says("c1:9093", redirect)
			w.rounds(1)
		}
		for _, a := range answers {
			w.says("c1:9093", a)
		}
		w.rounds(1)
		if n := len(w.answers["c1:9093"]); n > 0 {
			t.Fatalf("%d answers were not asked for", n)
		}
	}
	if got := w.topics(); got != "x y z" {
		t.Errorf("topics %q", got)
	}
	if w.log.LogStartOffset() != 100 || w.log.LEO() != 101 {
		t.Errorf("the log has %d to %d", w.log.LogStartOffset(), w.log.LEO())
	}
	got, err := vfs.ReadFile(w.fs, dir+"/"+id.FileName())
	if err != nil || !bytes.Equal(got, file.Bytes()) {
		t.Errorf("the copy of the checkpoint is another: %v", err)
	}
	w.start(5)
	if got := w.topics(); got != "x y" {
		t.Errorf("after a start, topics %q", got)
	}
	if leo, epoch := w.replica.End(); leo != 101 || epoch != 5 {
		t.Errorf("after a start, the log ends at %d of epoch %d", leo, epoch)
	}
}

// Bytes that are no batches, or not those that come next, are not appended.
func TestForeignBytes(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"damaged": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"a gap": func([]byte) []byte {
			return record.EncodeBatch(topicRecords([]string{"a"}), feature.Latest, 5, 5, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.says("c1:9093", w.refused(protocol.ErrNotLeaderForPartition, 1, 5, ""))
			bad := w.records(1, 5, 0, 2, "a", "b")
			bad.Topics[0].Partitions[0].RecordBatches = spoil(bad.Topics[0].Partitions[0].RecordBatches)
			w.says("c1:9093", bad)
			w.rounds(2)
			if w.log.LEO() != 0 {
				t.Errorf("the log ends at %d", w.log.LEO())
			}
		})
	}
}

// An observer writes its own checkpoints and starts from the newest.
func TestOwnSnapshot(t *testing.T) {
	w := newWorld(t)
	w.says("c1:9093", w.refused(protocol.ErrNotLeaderForPartition, 1, 5, ""))
	w.says("c1:9093", w.records(1, 5, 0, 2, "a", "b"))
	w.says("c1:9093", w.records(1, 5, 2, 2, "c"))
	w.rounds(3)
	if err := w.replica.WriteSnapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.start(5)
	if got := w.topics(); got != "a b" {
		t.Errorf("after a start, topics %q", got)
	}
	if leo, epoch := w.replica.End(); leo != 3 || epoch != 5 {
		t.Errorf("the log ends at %d of epoch %d", leo, epoch)
	}
}

// rumour is a controller that does not lead, and names one that leads no more.
type rumour struct {
	w     *world
	asked *int
	self  bool // it is the one that is named
}

func (r *rumour) Close() error { return nil }

func (r *rumour) Request(context.Context, kmsg.Request) (kmsg.Response, error) {
	*r.asked++
	if r.self {
		return r.w.refused(protocol.ErrNotLeaderForPartition, -1, 5, ""), nil
	}
	return r.w.refused(protocol.ErrNotLeaderForPartition, 1, 5, ""), nil
}

// While nobody leads, the others may name who led last, to each other and again and
// again: they are asked at a pace all the same.
func TestRumours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked int
		w.cfg.Dial = func(_ context.Context, addr string) (Conn, error) {
			return &rumour{w: w, asked: &asked, self: addr == "c1:9093"}, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if asked < 10 || asked > 100 {
			t.Errorf("asked %d times in 10 seconds", asked)
		}
	})
}
