package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

// crowd is the records of that many partitions in topics of ten, each on the
// brokers 1, 2 and 3.
func crowd(partitions int) []record.Record {
	var records []record.Record
	for i := range int32(partitions) {
		id := crowdID(i / 10)
		if i%10 == 0 {
			records = append(records, &record.Topic{Name: fmt.Sprint("crowd-", i/10), TopicID: id})
		}
		on := []protocol.NodeID{1 + protocol.NodeID(i%3), 1 + protocol.NodeID((i+1)%3), 1 + protocol.NodeID((i+2)%3)}
		records = append(records, &record.Partition{
			TopicID: id, PartitionID: i % 10, Replicas: on, ISR: on, Leader: on[0],
			Directories: []protocol.UUID{brokerDir(on[0]), brokerDir(on[1]), brokerDir(on[2])},
		})
	}
	return records
}

// crowdID scatters topics, as random ids do.
func crowdID(topic int32) protocol.UUID {
	n := uint32(topic) * 2654435761
	return protocol.UUID{1, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// brokerDir is the directory of registration's broker.
func brokerDir(id protocol.NodeID) protocol.UUID { return protocol.UUID{'D', byte(id), 15: 1} }

// fill has records written as they are.
func fill(tb testing.TB, c *Controller, records []record.Record) {
	tb.Helper()
	p := newPending(nil, "fill", "", time.Time{}, func(*office, *struct{}) (decision, error) {
		return decision{records: records}, nil
	})
	c.submit(p.op)
	if _, err := p.Wait(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkSmallChange is what a change costs the controller, decision, round and
// replay, in clusters of three sizes: it must not depend on them.
func BenchmarkSmallChange(b *testing.B) {
	for _, partitions := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			c, m := newBenchWorld(b)
			epochs := map[int32]protocol.BrokerEpoch{}
			broker, _ := m.Image().Broker(1)
			epochs[1] = broker.Epoch
			for id := range int32(2) {
				epochs[id+2] = joinBench(b, c, m, id+2)
			}
			fill(b, c, crowd(partitions))
			small := &smallChange{c: c, m: m, epochs: epochs, partitions: int32(partitions)}
			for _, change := range []struct {
				name string
				do   func(b *testing.B)
			}{
				{"Replay", small.replay},
				{"BrokerHeartbeat", small.heartbeat},
				{"AlterPartition", small.alterPartition},
				{"ElectLeaders", small.electLeaders},
				{"IncrementalAlterConfigs", small.alterConfigs},
				{"CreateTopics+DeleteTopics", small.createAndDelete},
			} {
				b.Run(change.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						small.n++
						change.do(b)
					}
				})
			}
		})
	}
}

func joinBench(b *testing.B, c *Controller, m *machine, id int32) protocol.BrokerEpoch {
	b.Helper()
	epoch, err := c.RegisterBroker(registration(id, byte(id)), soon()).Wait(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if resp, err := c.Heartbeat(beat(id, epoch, m.Image().Offset()), soon()).Wait(b.Context()); err != nil || resp.IsFenced {
		b.Fatalf("heartbeat: %+v, %v", resp, err)
	}
	return epoch
}

type smallChange struct {
	c          *Controller
	m          *machine
	epochs     map[int32]protocol.BrokerEpoch
	partitions int32
	n          int32
}

// target is another partition every time, all over the cluster.
func (s *smallChange) target() (*metadata.Topic, *metadata.Partition) {
	i := s.n * 7919 % s.partitions
	t, _ := s.m.Image().TopicByID(crowdID(i / 10))
	p, _ := t.Partition(i % 10)
	return t, p
}

func (s *smallChange) replay(b *testing.B) {
	t, p := s.target()
	delta := metadata.NewDelta(s.m.Image())
	rec := record.NewPartitionChange(t.ID, p.ID)
	rec.ISR = p.Replicas[:1+s.n%2]
	if err := delta.Replay(rec); err != nil {
		b.Fatal(err)
	}
	delta.Apply(delta.Base().Offset()+1, 1, 0)
}

func (s *smallChange) heartbeat(b *testing.B) {
	resp, err := s.c.Heartbeat(beat(1, s.epochs[1], s.m.Image().Offset()), soon()).Wait(b.Context())
	if err != nil || resp.ErrorCode != 0 {
		b.Fatalf("%+v, %v", resp, err)
	}
}

// alterPartition takes a follower out of the ISR, or lets it in again.
func (s *smallChange) alterPartition(b *testing.B) {
	t, p := s.target()
	isr := p.Replicas
	if len(p.ISR) == len(p.Replicas) {
		isr = p.Replicas[:2]
	}
	if !contains(isr, p.Leader) {
		isr = p.Replicas
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, int32(p.Leader), int64(s.epochs[int32(p.Leader)])
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.TopicID = t.ID
	part := kmsg.NewAlterPartitionRequestTopicPartition()
	part.Partition, part.LeaderEpoch, part.PartitionEpoch = p.ID, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	for _, id := range isr {
		part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: int32(id), BrokerEpoch: -1})
	}
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := s.c.AlterPartition(req, soon()).Wait(b.Context())
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		b.Fatalf("%+v, %v", resp, err)
	}
}

func contains(ids []protocol.NodeID, id protocol.NodeID) bool {
	for _, o := range ids {
		if o == id {
			return true
		}
	}
	return false
}

// electLeaders asks for an election that is not needed.
func (s *smallChange) electLeaders(b *testing.B) {
	t, p := s.target()
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: t.Name, Partitions: []int32{p.ID}}}
	if _, err := s.c.ElectLeaders(req, "", soon()).Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (s *smallChange) alterConfigs(b *testing.B) {
	t, _ := s.target()
	value := fmt.Sprint(1000 + s.n)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: t.Name,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}},
	}}
	change, err := s.c.IncrementalAlterConfigs(req, "", soon()).Wait(b.Context())
	if err != nil || change.Response.Resources[0].ErrorCode != 0 {
		b.Fatalf("%+v, %v", change.Response, err)
	}
}

func (s *smallChange) createAndDelete(b *testing.B) {
	name := fmt.Sprint("small.change_", s.n)
	created, err := s.c.CreateTopics(creation(3, name), "", soon()).Wait(b.Context())
	if err != nil || created.Response.Topics[0].ErrorCode != 0 {
		b.Fatalf("%+v, %v", created.Response, err)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.Topics = 6, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	deleted, err := s.c.DeleteTopics(req, "", soon()).Wait(b.Context())
	if err != nil || deleted.Response.Topics[0].ErrorCode != 0 {
		b.Fatalf("%+v, %v", deleted.Response, err)
	}
}
