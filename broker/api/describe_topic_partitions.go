package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	shared "github.com/klamm/klamm/api"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// describeTopicPartitions answers for topics page by page, sorted by name
// (KIP-966): a cursor says where the next page begins.
func (a *Admin) describeTopicPartitions(_ context.Context, req *server.Request) server.Answer {
	body := req.Body.(*kmsg.DescribeTopicPartitionsRequest)
	listener, version := req.Conn.Listener, req.Version
	return a.surely(func(bool) (server.Answer, bool) {
		p := &topicPages{
			metadataAnswer: metadataAnswer{self: a.NodeID, img: a.Image(), listener: listener},
			left:           int(min(max(int64(body.ResponsePartitionLimit), 1), a.brokerLayers().BrokerInt("max.request.partition.size.limit"))),
			resp:           kmsg.NewPtrDescribeTopicPartitionsResponse(),
		}
		p.resp.Version = version
		if err := p.answer(body); err != nil {
			return server.Answer{Response: refusedTopicPartitions(body, err)}, false
		}
		return server.Answer{Response: p.resp}, p.unknown
	})
}

// refusedTopicPartitions answers the same error for every topic, and nothing else.
func refusedTopicPartitions(req *kmsg.DescribeTopicPartitionsRequest, err error) kmsg.Response {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	resp.Version = req.Version
	for i := range req.Topics {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = &req.Topics[i].Topic, int16(protocol.CodeOf(err))
		t.AuthorizedOperations = shared.OperationsNotAsked
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// topicPages is one DescribeTopicPartitions answer in the making.
type topicPages struct {
	metadataAnswer
	left int // partitions that still fit
	resp *kmsg.DescribeTopicPartitionsResponse
}

func (p *topicPages) answer(req *kmsg.DescribeTopicPartitionsRequest) error {
	from, first := "", int32(0)
	if req.Cursor != nil {
		from, first = req.Cursor.Topic, req.Cursor.Partition
	}
	if req.Cursor != nil && first < 0 {
		return protocol.ErrInvalidRequest
	}
	if len(req.Topics) == 0 {
		for t := range p.img.TopicsFrom(from) {
			if !p.topic(t.Name, from, first) {
				break
			}
		}
		return nil
	}
	var names []string
	for _, t := range req.Topics {
		if t.Topic == "" {
			return protocol.ErrUnknownServerError // as Kafka, which trips over the name later
		}
		if t.Topic >= from {
			names = append(names, t.Topic)
		}
	}
	if req.Cursor != nil && !slices.Contains(names, from) {
		return protocol.ErrInvalidRequest
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !p.topic(name, from, first) {
			break
		}
	}
	return nil
}

// topic adds a topic, from partition first on where the cursor stands in it. It
// returns false when the page is full, with the cursor of the next one set.
func (p *topicPages) topic(name, from string, first int32) bool {
	if p.left == 0 {
		p.next(name, 0)
		return false
	}
	if name != from {
		first = 0
	}
	r := kmsg.NewDescribeTopicPartitionsResponseTopic()
	r.Topic, r.IsInternal = &name, protocol.IsInternalTopic(name)
	r.AuthorizedOperations = shared.TopicOperations
	t, ok := p.img.Topic(name)
	if !ok {
		r.ErrorCode = int16(protocol.ErrUnknownTopicOrPartition)
		if err := protocol.ValidateTopicName(name); err != nil {
			r.ErrorCode = int16(protocol.CodeOf(err))
		} else {
			p.unknown = true
		}
		p.resp.Topics = append(p.resp.Topics, r)
		return true
	}
	r.TopicID = t.ID
	end := min(int64(t.NumPartitions()), int64(first)+int64(p.left))
	for id := first; int64(id) < end; id++ {
		partition, _ := t.Partition(id)
		r.Partitions = append(r.Partitions, p.partition(partition))
	}
	p.resp.Topics = append(p.resp.Topics, r)
	p.left -= len(r.Partitions)
	if end < int64(t.NumPartitions()) {
		p.next(name, int32(end))
		return false
	}
	return true
}

func (p *topicPages) next(topic string, partition int32) {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	p.resp.NextCursor = &cursor
}

func (p *topicPages) partition(m *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	r := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	r.Partition, r.LeaderEpoch = m.ID, int32(m.LeaderEpoch)
	r.LeaderID = int32(protocol.NoNode)
	if leader, ok := p.broker(m.Leader); ok && !leader.Fenced && leader.listens {
		r.LeaderID = int32(m.Leader)
	}
	r.Replicas, r.ISR = protocol.Int32s(m.Replicas), protocol.Int32s(m.ISR)
	r.EligibleLeaderReplicas, r.LastKnownELR = protocol.Int32s(m.ELR), protocol.Int32s(m.LastKnownELR)
	for i, id := range m.Replicas {
		if p.offline(m, i) {
			r.OfflineReplicas = append(r.OfflineReplicas, int32(id))
		}
	}
	return r
}
