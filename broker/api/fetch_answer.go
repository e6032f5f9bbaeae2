package api

import (
	"slices"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// Sizes of an answer's parts without strings, rounded up: a hint for one
// allocation that is large enough.
const (
	fetchHeaderSize    = 32
	fetchTopicSize     = 24
	fetchPartitionSize = 72
)

// encode writes the answer of a run. The records' regions belong to the answer
// from here on.
func (run *fetchRun) encode(session int32) []server.Part {
	size, regions, topics := fetchHeaderSize, 0, 0
	var head *fetchItem // the first of the current topic
	for i := range run.items {
		it := &run.items[i]
		it.group = 0
		if it.unchanged {
			continue
		}
		if head == nil || !head.sameTopic(it) {
			head = it
			topics++
			size += fetchTopicSize + len(it.key.name)
		}
		head.group++
		size += fetchPartitionSize
		if it.fetched.Records != nil {
			regions++
		}
	}
	w := newFetchWriter(run.version, size, regions)
	w.header(protocol.None, session, topics)
	var leaders leaderEndpoints
	for i := range run.items {
		it := &run.items[i]
		if it.unchanged {
			continue
		}
		if it.group > 0 {
			w.topic(it.key.name, it.key.id, it.group)
		}
		run.count(it)
		run.encodeItem(w, it, &leaders)
	}
	w.trailer(leaders.endpoints)
	return w.finish()
}

// count counts what the answer has of a partition.
func (run *fetchRun) count(it *fetchItem) {
	if it.partition == nil {
		return
	}
	t := it.partition.Traffic()
	t.Add(replica.Fetches, 1)
	switch {
	case protocol.IsBug(it.err):
		t.Add(replica.FetchesFailed, 1)
	case it.fetched.Records == nil:
	case run.follower:
		it.partition.CountReplicated(run.replica, it.size)
	default:
		t.Add(replica.BytesOut, int64(it.size))
	}
}

func (it *fetchItem) sameTopic(other *fetchItem) bool {
	return it.key.id == other.key.id && it.key.name == other.key.name
}

func (run *fetchRun) encodeItem(w *fetchWriter, it *fetchItem, leaders *leaderEndpoints) {
	a := fetchPartitionAnswer{
		partition:          it.key.partition,
		highWatermark:      -1,
		lastStableOffset:   -1,
		logStartOffset:     -1,
		abortedNull:        !run.readCommitted && !it.unknown,
		currentLeader:      protocol.NoNode,
		elsewhere:          protocol.NoNode,
		currentLeaderEpoch: -1,
	}
	if it.err != nil {
		a.code = run.code(it.err)
		a.abortedNull = !it.unknown
		if run.version >= 16 && (a.code == protocol.ErrNotLeaderForPartition || a.code == protocol.ErrFencedLeaderEpoch) {
			a.currentLeader, a.currentLeaderEpoch = leaders.add(run.h.images.Image(), it.name, it.key.partition, run.listener)
		}
	} else {
		f := &it.fetched
		a.highWatermark, a.lastStableOffset, a.logStartOffset = f.HighWatermark, f.LastStableOffset, f.LogStartOffset
		if it.sent {
			a.elsewhere = it.elsewhere
		}
		a.diverges, a.divergingEpoch, a.divergingEnd = f.Diverges, f.DivergingEpoch, f.DivergingEnd
		if f.Records != nil {
			a.records = f.Records
			f.Records = nil
		}
	}
	w.partition(&a)
}

// code is the error code for the client: one that its version does not know
// would not make it look for the leader elsewhere.
func (run *fetchRun) code(err error) protocol.Error {
	code := protocol.CodeOf(err)
	if code == protocol.ErrKafkaStorageError && run.version <= 5 {
		return protocol.ErrNotLeaderForPartition
	}
	return code
}

// leaderEndpoints collects where the leaders are that an answer names, each once
// (KIP-951: the client need not ask for metadata to go on).
type leaderEndpoints struct {
	endpoints []nodeEndpoint
}

// add returns the leader of a partition and its epoch, −1 and −1 where the image
// does not know the partition.
func (l *leaderEndpoints) add(img *metadata.Image, topic string, partition int32, listener string) (protocol.NodeID, protocol.LeaderEpoch) {
	p, ok := img.Partition(protocol.TopicPartition{Topic: topic, Partition: partition})
	if !ok {
		return protocol.NoNode, -1
	}
	known := slices.ContainsFunc(l.endpoints, func(n nodeEndpoint) bool { return n.id == p.Leader })
	if b, ok := img.Broker(p.Leader); ok && !known {
		for _, e := range b.Endpoints {
			if e.Name == listener {
				l.endpoints = append(l.endpoints, nodeEndpoint{id: p.Leader, host: e.Host, port: int32(e.Port), rack: b.Rack})
			}
		}
	}
	return p.Leader, p.LeaderEpoch
}
