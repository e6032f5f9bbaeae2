package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
	"github.com/klamm/klamm/raftlog"
)

// maxFetchBytes bounds what one answer brings of the log or of a checkpoint,
// whatever is asked for: Kafka's brokers ask for as much. The first batch comes
// whole even so.
const maxFetchBytes = 8 << 20

// fetch serves the metadata log to those who are no voters: brokers, and
// controllers that only watch. It is Kafka's own Fetch of __cluster_metadata-0
// (KIP-595). A fetch that has all there is waits for more, for another leader, or
// for its time to pass.
func (h *handlers) fetch(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.FetchRequest)
	f := &logFetch{h: h, version: body.Version, maxBytes: min(int(body.MaxBytes), maxFetchBytes)}
	if body.ClusterID != nil && *body.ClusterID != h.Metadata.ClusterID {
		return server.Answer{Response: f.refuse(protocol.ErrInconsistentClusterID)}
	}
	if !fetchesMetadata(body) {
		return server.Answer{Response: f.refuse(protocol.ErrInvalidRequest)}
	}
	f.at = body.Topics[0].Partitions[0]
	f.replica = replicaKey{id: protocol.NodeID(body.ReplicaID), directory: f.at.ReplicaDirectoryID}
	if body.Version >= 15 {
		f.replica.id = protocol.NodeID(body.ReplicaState.ID)
	}
	if body.MaxWaitMillis < 0 || f.at.FetchOffset < 0 || f.at.LastFetchedEpoch < 0 || f.at.LastFetchedEpoch > f.at.CurrentLeaderEpoch {
		leadership, _ := h.Metadata.Leadership()
		return server.Answer{Response: f.answer(leadership, f.empty(protocol.ErrInvalidRequest))}
	}
	f.watch()
	resp, ready := f.try()
	if ready || body.MaxWaitMillis == 0 {
		return server.Answer{Response: resp}
	}
	deadline := req.Received.Add(time.Duration(body.MaxWaitMillis) * time.Millisecond)
	return server.Answer{Wait: func(ctx context.Context) server.Answer { return f.wait(ctx, resp, deadline) }}
}

func fetchesMetadata(body *kmsg.FetchRequest) bool {
	if len(body.Topics) != 1 || len(body.Topics[0].Partitions) != 1 || body.Topics[0].Partitions[0].Partition != 0 {
		return false
	}
	if body.Version >= 13 {
		return body.Topics[0].TopicID == protocol.MetadataTopicID
	}
	return body.Topics[0].Topic == protocol.MetadataTopic
}

// logFetch is one fetch of the metadata log.
type logFetch struct {
	h        *handlers
	version  int16
	maxBytes int
	at       kmsg.FetchRequestTopicPartition
	replica  replicaKey

	// What wakes it: taken before it looks, so that nothing is missed.
	grown, moved <-chan struct{}
}

func (f *logFetch) watch() {
	f.grown = f.h.Metadata.Grown()
	_, f.moved = f.h.Metadata.Leadership()
}

func (f *logFetch) wait(ctx context.Context, resp *kmsg.FetchResponse, deadline time.Time) server.Answer {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-f.grown:
		case <-f.moved:
		case <-timer.C:
			return server.Answer{Response: resp}
		case <-ctx.Done():
			return server.Answer{Close: fmt.Errorf("fetch was parked: %w", ctx.Err())}
		}
		f.watch()
		var ready bool
		if resp, ready = f.try(); ready {
			return server.Answer{Response: resp}
		}
	}
}

// try returns the answer as things are, and whether it is worth sending.
func (f *logFetch) try() (*kmsg.FetchResponse, bool) {
	m := f.h.Metadata
	leadership, _ := m.Leadership()
	if code := leaderOnly(leadership, f.at.CurrentLeaderEpoch); code != protocol.None {
		return f.answer(leadership, f.empty(code)), true
	}
	p := f.empty(protocol.None)
	end := m.Log.LEO()
	p.HighWatermark, p.LogStartOffset = end, m.Log.LogStartOffset()
	at, err := m.locate(f.at.FetchOffset, protocol.LeaderEpoch(f.at.LastFetchedEpoch))
	if err == nil && at == located {
		f.h.observers.note(f.replica, leadership.Epoch, f.at.FetchOffset, end, time.Now())
		p.RecordBatches, err = f.read(end)
	}
	if err != nil {
		f.h.Log.Error().Err(err).Int64("offset", f.at.FetchOffset).Int32("replica", int32(f.replica.id)).Msg("metadata log can not be read")
		return f.answer(leadership, f.empty(protocol.ErrUnknownServerError)), true
	}
	p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(at.epoch), at.end
	p.SnapshotID.Epoch, p.SnapshotID.EndOffset = int32(at.snapshot.Epoch), at.snapshot.Offset
	return f.answer(leadership, p), at != located || len(p.RecordBatches) > 0 || end > f.at.HighWatermark
}

func (f *logFetch) read(end int64) ([]byte, error) {
	if f.at.FetchOffset >= end {
		return []byte{}, nil
	}
	slice, err := f.h.Metadata.Log.Read(f.at.FetchOffset, f.maxBytes, end, true)
	if err != nil {
		return nil, err
	}
	defer slice.Release()
	return slice.Bytes()
}

func (f *logFetch) refuse(code protocol.Error) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.ErrorCode = f.version, int16(code)
	return resp
}

func (f *logFetch) empty(code protocol.Error) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode, p.HighWatermark, p.LogStartOffset = int16(code), -1, f.h.Metadata.Log.LogStartOffset()
	p.RecordBatches = []byte{}
	p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{} // as Kafka has it, and not null
	return p
}

func (f *logFetch) answer(leadership raftlog.Leadership, p kmsg.FetchResponseTopicPartition) *kmsg.FetchResponse {
	resp := f.refuse(protocol.None)
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(leadership.Leader), int32(leadership.Epoch)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = protocol.MetadataTopic, protocol.MetadataTopicID
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	if host, port, ok := f.h.Metadata.Endpoint(leadership.Leader); ok {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port = int32(leadership.Leader), host, int32(port)
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp
}

// leaderOnly tells whether this node may answer for the leader of an epoch.
func leaderOnly(l raftlog.Leadership, epoch int32) protocol.Error {
	switch {
	case epoch < int32(l.Epoch):
		return protocol.ErrFencedLeaderEpoch
	case epoch > int32(l.Epoch):
		return protocol.ErrUnknownLeaderEpoch
	case !l.Leading:
		return protocol.ErrNotLeaderForPartition
	}
	return protocol.None
}

// location is where a follower stands: in the log, or where it has to go, back to
// an offset or to a checkpoint.
type location struct {
	epoch    protocol.LeaderEpoch // −1 where the logs do not part
	end      int64
	snapshot snapshot.ID // −1 where none is needed
}

// located is the location of a follower that can read on.
var located = location{epoch: -1, end: -1, snapshot: snapshot.ID{Offset: -1, Epoch: -1}}

// locate finds out whether the log goes on where a follower's ends: at offset,
// behind a record of epoch.
func (m *MetadataLog) locate(offset int64, epoch protocol.LeaderEpoch) (location, error) {
	start := m.Log.LogStartOffset()
	own, end := m.Log.EndOffsetFor(epoch)
	if own < 0 { // newer than all that is here
		own, _ = m.Log.LatestEpoch()
		end = m.Log.LEO()
	}
	known := epoch >= m.Log.EpochFor(start)
	if offset > start && known && own == epoch && offset <= end {
		return located, nil
	}
	ids, err := snapshot.Checkpoints(m.FS, m.Dir)
	if err != nil {
		return located, err
	}
	switch {
	case offset >= start && slices.Contains(ids, snapshot.ID{Offset: offset, Epoch: protocol.ControllerEpoch(epoch)}):
		return located, nil // it has just loaded this one
	case len(ids) > 0 && (offset == 0 || offset <= start || !known):
		// Also where the follower has nothing: a checkpoint is less than the log.
		parted := located
		parted.snapshot = ids[len(ids)-1]
		return parted, nil
	case offset < start:
		return located, errors.New("the log starts later, and there is no checkpoint of what was before")
	case offset == 0:
		return located, nil
	}
	parted := located
	parted.epoch, parted.end = max(own, 0), max(end, 0)
	return parted, nil
}
