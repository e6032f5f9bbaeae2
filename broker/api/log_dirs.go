package api

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/storage"
)

// logStore has the logs of this broker; *storage.Store is one.
type logStore interface {
	Dirs() []*storage.Dir
	Get(tp protocol.TopicPartition) (*storage.Log, bool)
	Logs() iter.Seq2[protocol.TopicPartition, *storage.Log]
}

// LogDirs answers where the replicas of this broker are, and how large.
type LogDirs struct {
	images     imageSource
	partitions partitionSource
	logs       logStore
	log        zerolog.Logger
}

// NewLogDirs returns the handlers over the logs of this broker.
func NewLogDirs(images imageSource, partitions partitionSource, logs logStore, log zerolog.Logger) *LogDirs {
	return &LogDirs{images: images, partitions: partitions, logs: logs, log: log}
}

// APIs returns what the server serves by these handlers.
func (h *LogDirs) APIs() []server.API {
	return []server.API{
		server.Serve(kmsg.DescribeLogDirs, h.Describe),
		server.Serve(kmsg.AlterReplicaLogDirs, h.Alter),
	}
}

// Describe handles DescribeLogDirs. What is asked for and not here is left out.
func (h *LogDirs) Describe(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.Version = body.Version
	byDir := make(map[*storage.Dir][]kmsg.DescribeLogDirsResponseDirTopic)
	for tp, l := range h.asked(body) {
		topics := byDir[l.Dir()]
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size, p.OffsetLag = tp.Partition, l.Size(), -1
		if _, err := hosted(h.images.Image(), h.partitions, tp); err == nil {
			p.OffsetLag = 0 // the high watermark of our own replica is never above its end
		}
		at := len(topics) - 1
		for at >= 0 && topics[at].Topic != tp.Topic {
			at--
		}
		if at < 0 {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = tp.Topic
			topics, at = append(topics, t), len(topics)
		}
		topics[at].Partitions = append(topics[at].Partitions, p)
		byDir[l.Dir()] = topics
	}
	for _, dir := range h.logs.Dirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir = dir.Path()
		err := dir.Err()
		if err == nil {
			out.Topics = byDir[dir]
			out.TotalBytes, out.UsableBytes, err = dir.Space()
		}
		if err != nil {
			h.log.Warn().Err(err).Str("path", dir.Path()).Msg("log directory cannot be described")
			out.ErrorCode, out.Topics = int16(protocol.ErrKafkaStorageError), nil
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return server.Answer{Response: resp}
}

// asked yields the logs that a request is about; all of them for null.
func (h *LogDirs) asked(body *kmsg.DescribeLogDirsRequest) iter.Seq2[protocol.TopicPartition, *storage.Log] {
	if body.Topics == nil {
		return h.logs.Logs()
	}
	return func(yield func(protocol.TopicPartition, *storage.Log) bool) {
		seen := make(map[protocol.TopicPartition]bool)
		for i := range body.Topics {
			for _, partition := range body.Topics[i].Partitions {
				tp := protocol.TopicPartition{Topic: body.Topics[i].Topic, Partition: partition}
				l, ok := h.logs.Get(tp)
				if ok && !seen[tp] && !yield(tp, l) {
					return
				}
				seen[tp] = true
			}
		}
	}
}

// Alter handles AlterReplicaLogDirs. A replica stays where it is: a move to
// the directory that it is in succeeds, one to another is refused as not
// supported.
func (h *LogDirs) Alter(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.AlterReplicaLogDirsRequest)
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	resp.Version = body.Version
	topics := make(map[string]int)
	for i := range body.Dirs {
		for _, in := range body.Dirs[i].Topics {
			at, ok := topics[in.Topic]
			if !ok {
				at = len(resp.Topics)
				topics[in.Topic] = at
				t := kmsg.NewAlterReplicaLogDirsResponseTopic()
				t.Topic = in.Topic
				resp.Topics = append(resp.Topics, t)
			}
			for _, partition := range in.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition = partition
				if err := h.alter(body.Dirs[i].Dir, protocol.TopicPartition{Topic: in.Topic, Partition: partition}); err != nil {
					p.ErrorCode = int16(protocol.CodeOf(err))
				}
				resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, p)
			}
		}
	}
	return server.Answer{Response: resp}
}

func (h *LogDirs) alter(path string, tp protocol.TopicPartition) error {
	var to *storage.Dir
	for _, dir := range h.logs.Dirs() {
		if filepath.IsAbs(path) && filepath.Clean(path) == filepath.Clean(dir.Path()) {
			to = dir
		}
	}
	if to == nil {
		return protocol.ErrLogDirNotFound
	}
	if err := to.Err(); err != nil {
		return err
	}
	_, err := hosted(h.images.Image(), h.partitions, tp)
	if protocol.CodeOf(err) == protocol.ErrNotLeaderForPartition {
		return protocol.ErrReplicaNotAvailable
	}
	if err != nil {
		return err
	}
	l, ok := h.logs.Get(tp)
	switch {
	case !ok:
		return protocol.ErrReplicaNotAvailable
	case l.Dir() != to:
		return protocol.ErrUnsupportedVersion
	}
	return nil
}
