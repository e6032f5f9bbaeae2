package fetcher

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
)

// session is an incremental fetch session (KIP-227): what the leader knows that
// we want need not be said again. Its zero value begins a new one.
type session struct {
	id    int32
	epoch int32 // of the next request; 0 asks for a session
	known map[key]replica.Position
}

// asked is what a request asks for.
type asked map[key]want

// request is the next fetch: all partitions, or, in a session, what is different
// from what the leader knows.
func (s *session) request(wants []want) (*kmsg.FetchRequest, asked) {
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	all := make(asked, len(wants))
	for _, w := range wants {
		all[keyOf(w.partition)] = w
	}
	// Partitions of a topic stand together.
	slices.SortFunc(wants, func(a, b want) int { return compare(keyOf(a.partition), keyOf(b.partition)) })
	for _, w := range wants {
		if known, ok := s.known[keyOf(w.partition)]; ok && known == w.at {
			continue
		}
		id := w.partition.TopicID()
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != id {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.partition.TopicPartition().Topic, id
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = w.partition.TopicPartition().Partition
		p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = int32(w.at.LeaderEpoch), w.at.Offset, int32(w.at.LastEpoch)
		p.LogStartOffset, p.HighWatermark = w.at.LogStartOffset, w.at.HighWatermark
		t.Partitions = append(t.Partitions, p)
	}
	for k := range s.known {
		if _, ok := all[k]; ok {
			continue
		}
		t := kmsg.NewFetchRequestForgottenTopic()
		t.TopicID, t.Partitions = k.topic, []int32{k.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req, all
}

// answered goes on to the next epoch, in the session that the leader gave.
func (s *session) answered(id int32, all asked) {
	switch {
	case id == 0: // it has none to give
		*s = session{}
		return
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
	s.id = id
	s.known = make(map[key]replica.Position, len(all))
	for k, w := range all {
		s.known[k] = w.at
	}
}

func compare(a, b key) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
}
