package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/server"
)

// answer writes what became of each partition. Under acks=0 the only way to tell
// an error is to close the connection, so that the client asks for metadata anew.
func (run *produceRun) answer() server.Answer {
	if run.acks == acksNone {
		for i := range run.entries {
			if e := &run.entries[i]; e.err != nil {
				return server.Answer{Close: fmt.Errorf("produce without acknowledgement to partition %d of %q: %w",
					e.index, run.topics[e.topic].name, e.err)}
			}
		}
		return server.Answer{None: true}
	}
	resp := &kmsg.ProduceResponse{Version: run.version, Topics: make([]kmsg.ProduceResponseTopic, len(run.topics))}
	for i := range run.topics {
		t := &resp.Topics[i]
		t.Topic, t.TopicID = run.topics[i].name, run.topics[i].id
		t.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, run.topics[i].entries)
	}
	var leaders leaderEndpoints
	for i := range run.entries {
		e := &run.entries[i]
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition = e.index
		p.BaseOffset, p.LogAppendTime, p.LogStartOffset = -1, -1, e.logStart
		if e.inLog {
			p.BaseOffset, p.LogAppendTime = e.appended.FirstOffset, e.logAppendTime
		}
		if e.err != nil {
			run.writeError(&p, e, &leaders)
		}
		t := &resp.Topics[e.topic]
		t.Partitions = append(t.Partitions, p)
	}
	for _, n := range leaders.endpoints {
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = int32(n.id), n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	return server.Answer{Response: resp}
}

func (run *produceRun) writeError(p *kmsg.ProduceResponseTopicPartition, e *produceEntry, leaders *leaderEndpoints) {
	code := protocol.CodeOf(e.err)
	p.ErrorCode = int16(code)
	p.ErrorMessage = protocol.MessageOf(e.err)
	for _, r := range e.refused {
		out := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		out.RelativeOffset = r.Index
		message := r.Message
		out.ErrorMessage = &message
		p.ErrorRecords = append(p.ErrorRecords, out)
	}
	if run.version >= 10 && code == protocol.ErrNotLeaderForPartition {
		leader, epoch := leaders.add(run.h.images.Image(), run.topicName(e), e.index, run.listener)
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = int32(leader), int32(epoch)
	}
}

// topicName is the name of an entry's topic, also where the request has its id.
func (run *produceRun) topicName(e *produceEntry) string {
	if e.partition != nil {
		return e.partition.TopicPartition().Topic
	}
	t := &run.topics[e.topic]
	if t.name == "" {
		if known, ok := run.h.images.Image().TopicByID(t.id); ok {
			return known.Name
		}
	}
	return t.name
}
