package fetcher

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is an incremental fetch session (KIP-227): what the leader knows that
// we want need not be said again. Its zero value begins a new one.
type session struct {
	// id is 0 for none. With epoch, that of the next request, 0 another session is asked
	// for, and the leader forgets this one, which would stay there until it needs the
	// place.
	id, epoch int32
	// known are those that the leader fetches for, each with what it was told, gone
	// those that it has still to forget.
	known map[key]*entry
	gone  map[key]struct{}
}

// request is the next fetch: what is different from what the leader knows.
func (s *session) request(wants []want) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	if s.known == nil {
		s.known = make(map[key]*entry, len(wants))
	}
	// Partitions of a topic stand together.
	slices.SortFunc(wants, func(a, b want) int { return compare(a.key, b.key) })
	for _, w := range wants {
		if s.known[w.key] == w.entry && w.entry.at == w.at {
			continue
		}
		s.known[w.key], w.entry.at = w.entry, w.at
		delete(s.gone, w.key)
		id := w.key.topic
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != id {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.partition.TopicPartition().Topic, id
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = w.key.partition
		p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = int32(w.at.LeaderEpoch), w.at.Offset, int32(w.at.LastEpoch)
		p.LogStartOffset, p.HighWatermark = w.at.LogStartOffset, w.at.HighWatermark
		t.Partitions = append(t.Partitions, p)
	}
	for k := range s.gone {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID, t.Partitions = k.topic, []int32{k.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req
}

// forget has the leader fetch no more for a partition.
func (s *session) forget(k key) {
	if s.known[k] == nil {
		return
	}
	delete(s.known, k)
	if s.gone == nil {
		s.gone = make(map[key]struct{})
	}
	s.gone[k] = struct{}{}
}

// answered goes on to the next epoch, in the session that the leader gave. It returns
// false where it has none to give.
func (s *session) answered(id int32) bool {
	switch {
	case id == 0:
		s.id = 0
		return false
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
	s.id, s.gone = id, nil
	return true
}

func compare(a, b key) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
}
