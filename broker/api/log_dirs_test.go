package api

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// twoDirs has two log directories: one with the logs of a partition that the
// metadata knows and one that it does not, and one that is offline.
type twoDirs struct {
	dirs []*storage.Dir
	logs map[protocol.TopicPartition]*storage.Log
}

func (d *twoDirs) Dirs() []*storage.Dir { return d.dirs }

func (d *twoDirs) Get(tp protocol.TopicPartition) (*storage.Log, bool) {
	l, ok := d.logs[tp]
	return l, ok
}

func (d *twoDirs) Logs() iter.Seq2[protocol.TopicPartition, *storage.Log] { return maps.All(d.logs) }

func newTwoDirs(t *testing.T) *twoDirs {
	mem := vfs.NewMem()
	d := &twoDirs{logs: map[protocol.TopicPartition]*storage.Log{}}
	for i, path := range []string{"/one", "/two"} {
		meta := storage.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{byte(i + 1)}}
		if err := storage.Format(mem, path, meta, time.UnixMilli(0)); err != nil {
			t.Fatal(err)
		}
		dir, err := storage.OpenDir(mem, path, time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		d.dirs = append(d.dirs, dir)
	}
	for _, tp := range []protocol.TopicPartition{{Topic: "t"}, {Topic: "old", Partition: 3}} {
		l, err := storage.OpenLog(mem, "/one/"+tp.String(), storage.LogOptions{Config: storage.DefaultLogConfig(), Dir: d.dirs[0]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.AppendAsLeader(plainBatch(1), 0, storage.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		d.logs[tp] = l
	}
	return d
}

func TestLogDirs(t *testing.T) {
	w := newDataWorld(t)
	w.topic("t", 1, 1)
	store := newTwoDirs(t)
	h := NewLogDirs(w, w.manager, store, zerolog.Nop())
	describe := func(topics ...string) string {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = 5
		for _, topic := range topics {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic, t.Partitions = topic, []int32{0, 3}
			req.Topics = append(req.Topics, t)
		}
		resp, err := decodeAnswer(req, h.Describe(t.Context(), w.request(req)))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, dir := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			var logs []string
			for _, topic := range dir.Topics {
				for _, p := range topic.Partitions {
					logs = append(logs, fmt.Sprintf(" %s-%d %d bytes lag %d", topic.Topic, p.Partition, p.Size, p.OffsetLag))
				}
			}
			slices.Sort(logs)
			out = append(out, fmt.Sprintf("%s %s%s", dir.Dir, protocol.Error(dir.ErrorCode), strings.Join(logs, "")))
		}
		return strings.Join(out, "; ")
	}
	size := len(plainBatch(1))
	for _, tc := range []struct {
		topics []string
		want   string
	}{
		{nil, fmt.Sprintf("/one NONE old-3 %d bytes lag -1 t-0 %[1]d bytes lag 0; /two NONE", size)},
		{[]string{"t", "none", "t"}, fmt.Sprintf("/one NONE t-0 %d bytes lag 0; /two NONE", size)},
		{[]string{"none"}, "/one NONE; /two NONE"},
	} {
		if got := describe(tc.topics...); got != tc.want {
			t.Errorf("%v:\n%s, want\n%s", tc.topics, got, tc.want)
		}
	}

	alter := func(dir, topic string) protocol.Error {
		req := kmsg.NewPtrAlterReplicaLogDirsRequest()
		req.Version = 2
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = dir
		in := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		in.Topic, in.Partitions = topic, []int32{0}
		d.Topics = append(d.Topics, in)
		req.Dirs = append(req.Dirs, d)
		resp, err := decodeAnswer(req, h.Alter(t.Context(), w.request(req)))
		if err != nil {
			t.Fatal(err)
		}
		return protocol.Error(resp.(*kmsg.AlterReplicaLogDirsResponse).Topics[0].Partitions[0].ErrorCode)
	}
	for _, tc := range []struct {
		dir, topic string
		want       protocol.Error
	}{
		{"/one", "t", protocol.None},
		{"/one/", "t", protocol.None},
		{"/one", "none", protocol.ErrUnknownTopicOrPartition},
		{"/three", "t", protocol.ErrLogDirNotFound},
		{"one", "t", protocol.ErrLogDirNotFound},
		{"/two", "t", protocol.ErrUnsupportedVersion},
	} {
		if got := alter(tc.dir, tc.topic); got != tc.want {
			t.Errorf("move %s to %s: %v, want %v", tc.topic, tc.dir, got, tc.want)
		}
	}

	store.dirs[1].Fail(fmt.Errorf("disk is gone"))
	if got := describe("none"); got != "/one NONE; /two KAFKA_STORAGE_ERROR" {
		t.Errorf("with a directory offline: %s", got)
	}
	if got := alter("/two", "t"); got != protocol.ErrKafkaStorageError {
		t.Errorf("move to an offline directory: %v", got)
	}
}

// Producers and leader epochs are answered by the leader alone.
func TestDescribeLeader(t *testing.T) {
	w := newDataWorld(t)
	id := w.topic("t", 1, 1, 1, 2)
	w.ask(produceRequest(9, acksOne, "t", builtBatch(3, batch.Options{Producer: &batch.Producer{ID: 7, Epoch: 1}})))
	producers := func(topic string) string {
		req := kmsg.NewPtrDescribeProducersRequest()
		in := kmsg.NewDescribeProducersRequestTopic()
		in.Topic, in.Partitions = topic, []int32{0}
		req.Topics = append(req.Topics, in)
		resp := w.ask(req).(*kmsg.DescribeProducersResponse)
		p := resp.Topics[0].Partitions[0]
		out := protocol.Error(p.ErrorCode).Error()
		for _, a := range p.ActiveProducers {
			out += fmt.Sprintf(" id %d epoch %d sequence %d coordinator %d txn %d",
				a.ProducerID, a.ProducerEpoch, a.LastSequence, a.CoordinatorEpoch, a.CurrentTxnStartOffset)
		}
		return out
	}
	epochs := func(topic string, believed, epoch int32) string {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version = 4
		in := kmsg.NewOffsetForLeaderEpochRequestTopic()
		in.Topic = topic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = believed, epoch
		in.Partitions = append(in.Partitions, p)
		req.Topics = append(req.Topics, in)
		out := w.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		return fmt.Sprintf("%s epoch %d end %d", protocol.Error(out.ErrorCode), out.LeaderEpoch, out.EndOffset)
	}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	check(producers("t"), protocol.None.Error()+" id 7 epoch 1 sequence 2 coordinator -1 txn -1")
	check(producers("none"), protocol.ErrUnknownTopicOrPartition.Error())
	check(producers("a b"), protocol.ErrInvalidTopicException.Error())
	check(epochs("t", -1, 0), "NONE epoch 0 end 3")
	check(epochs("t", 0, 0), "NONE epoch 0 end 3")
	check(epochs("t", 5, 0), "UNKNOWN_LEADER_EPOCH epoch -1 end -1")
	check(epochs("t", -1, 9), "NONE epoch -1 end -1")
	check(epochs("none", -1, 0), "UNKNOWN_TOPIC_OR_PARTITION epoch -1 end -1")
	w.lead(id, 2)
	check(epochs("t", -1, 0), "NOT_LEADER_FOR_PARTITION epoch -1 end -1")
	check(epochs("t", 0, 0), "FENCED_LEADER_EPOCH epoch -1 end -1")
	check(producers("t"), protocol.ErrNotLeaderForPartition.Error())
}
