package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// load is what clients do. Topics whose name begins with "safe" have three
// replicas, want two in sync, forbid unclean elections, and nobody changes that: of
// them no acknowledged record may be lost. With "wild" ones anything is done.
type load struct {
	w       *world
	stopped bool
	topics  int
	values  int

	producers map[key]*idempotent
	consumers map[key]*consumer
	ids       map[int64]bool // of producers
}

// begin sees to it that there are topics.
func (l *load) begin() {
	img := l.w.check.newestImage()
	for i, partitions := range []int32{2, 1} {
		if name := fmt.Sprintf("safe%d", i); !has(img, name) {
			l.create(name, partitions)
		}
	}
	l.w.after(time.Second, "", l.begin)
}

func has(img *metadata.Image, topic string) bool {
	_, ok := img.Topic(topic)
	return ok
}

func (l *load) start() {
	w := l.w
	var produce, consume, administer func()
	produce = func() {
		if !l.stopped {
			l.produce()
			w.after(w.between(5*time.Millisecond, 150*time.Millisecond), "", produce)
		}
	}
	consume = func() {
		if !l.stopped {
			l.consume()
			w.after(w.between(20*time.Millisecond, 400*time.Millisecond), "", consume)
		}
	}
	administer = func() {
		if !l.stopped {
			l.administer()
			w.after(w.between(20*time.Millisecond, time.Second), "", administer)
		}
	}
	w.after(0, "", produce)
	w.after(0, "", consume)
	w.after(0, "", administer)
	w.after(0, "", l.hire)
	w.after(0, "", l.subscribe)
}

func (l *load) stop() { l.stopped = true }

// ask sends a request to a broker's listener from outside and has the answer looked at.
func (l *load) ask(n *node, req kmsg.Request, answered func(resp kmsg.Response)) {
	w := l.w
	w.ops.Go(func() {
		ctx, cancel := context.WithTimeout(w.done, 10*time.Second)
		defer cancel()
		c, err := w.net.dial(ctx, nil, hostPort(n.id, protocol.BrokerListener))
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		if resp, err := c.Request(ctx, req); err == nil && answered != nil {
			answered(resp)
		}
	})
}

func (l *load) anyBroker() *node {
	b := l.w.brokers()
	return b[l.w.rng.IntN(len(b))]
}

// target is a partition to do something with.
type target struct {
	topic     *metadata.Topic
	partition *metadata.Partition
}

// anyPartition draws one of the newest image, nil where there is none.
func (l *load) anyPartition(wildOnly bool) (t target, ok bool) {
	var all []target
	for topic := range l.w.check.newestImage().Topics() {
		if wildOnly && safe(topic.Name) {
			continue
		}
		for p := range topic.Partitions() {
			all = append(all, target{topic, p})
		}
	}
	if len(all) == 0 {
		return target{}, false
	}
	return all[l.w.rng.IntN(len(all))], true
}

// produce sends one record, to the leader, or at times to somebody else.
func (l *load) produce() {
	w := l.w
	t, ok := l.anyPartition(false)
	if !ok {
		return
	}
	n := l.anyBroker()
	if t.partition.Leader >= 0 && w.rng.IntN(10) > 0 {
		n = w.node(t.partition.Leader)
	}
	l.values++
	value := fmt.Sprintf("value %d", l.values)
	b := batch.NewBuilder(batch.Options{})
	stamp := time.Now()
	if w.rng.IntN(20) == 0 { // a producer whose clock is wrong
		stamp = stamp.Add(-w.between(0, 100*time.Hour))
	}
	b.Append(batch.Record{Timestamp: stamp.UnixMilli(), Value: []byte(value)})
	records, err := b.Build()
	if err != nil {
		w.failf("build a batch: %v", err)
		return
	}
	acks := int16(-1)
	if w.rng.IntN(4) == 0 {
		acks = 1
	}
	req := produceRequest(t.topic.Name, key{t.topic.ID, t.partition.ID}, records, acks)
	l.ask(n, req, func(resp kmsg.Response) {
		for _, rt := range resp.(*kmsg.ProduceResponse).Topics {
			for _, rp := range rt.Partitions {
				if rp.ErrorCode == 0 {
					w.check.acknowledged(key{t.topic.ID, rp.Partition}, t.topic.Name, rp.BaseOffset, value, req.Acks)
				}
			}
		}
	})
}

func produceRequest(topic string, at key, records []byte, acks int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, int32(produceTimeout.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, at.topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = at.partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// consume reads a partition from somewhere on.
func (l *load) consume() {
	w := l.w
	t, ok := l.anyPartition(false)
	if !ok || t.partition.Leader < 0 {
		return
	}
	at := key{t.topic.ID, t.partition.ID}
	offset, committed := w.rng.Int64N(w.check.end(at)+1), w.check.committedEnd(at)
	l.ask(w.node(t.partition.Leader), fetchRequest(t.topic.Name, at, offset, -1), func(resp kmsg.Response) {
		for _, rt := range resp.(*kmsg.FetchResponse).Topics {
			for _, rp := range rt.Partitions {
				w.check.consumed(at, t.topic.Name, offset, committed, rp)
			}
		}
	})
}

func (l *load) create(name string, partitions int32) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 3
	config := func(key, value string) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		t.Configs = append(t.Configs, c)
	}
	if safe(name) {
		config("min.insync.replicas", "2")
		config("unclean.leader.election.enable", "false")
		if l.w.mix.synced {
			config("flush.messages", "1")
		}
	} else {
		t.ReplicationFactor = int16(1 + l.w.rng.IntN(3))
	}
	req.Topics = append(req.Topics, t)
	l.ask(l.anyBroker(), req, nil)
}

// administer sends one administrator's request.
func (l *load) administer() {
	w := l.w
	switch w.rng.IntN(20) {
	case 0, 1, 2:
		if w.check.newestImage().NumTopics() < 8 {
			l.topics++
			l.create(fmt.Sprintf("wild%d", l.topics), int32(1+w.rng.IntN(3)))
		}
	case 3:
		l.delete()
	case 4:
		l.grow()
	case 5, 6, 7, 8:
		l.reassign()
	case 9, 10:
		l.cancelReassignments()
	case 11, 12, 13:
		l.electLeaders()
	case 14, 15, 16:
		l.configure()
	case 17:
		l.unregister()
	case 18:
		l.allocate()
	case 19:
		l.list()
	}
}

func (l *load) delete() {
	t, ok := l.anyPartition(true)
	if !ok {
		return
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.TopicID = t.topic.ID
	req.Topics = append(req.Topics, rt)
	l.ask(l.anyBroker(), req, nil)
}

func (l *load) grow() {
	t, ok := l.anyPartition(false)
	if !ok {
		return
	}
	n := int32(0)
	for range t.topic.Partitions() {
		n++
	}
	if n >= 4 {
		return
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = t.topic.Name, n+1
	req.Topics = append(req.Topics, rt)
	l.ask(l.anyBroker(), req, nil)
}

func (l *load) reassign() {
	w := l.w
	t, ok := l.anyPartition(false)
	if !ok {
		return
	}
	brokers := w.brokers()
	w.rng.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
	size := 3
	if !safe(t.topic.Name) {
		size = 1 + w.rng.IntN(3)
	}
	var replicas []int32
	for _, b := range brokers[:size] {
		replicas = append(replicas, int32(b.id))
	}
	l.alterAssignments(t, replicas)
}

// cancelReassignments takes back a move. The replicas that it takes out of the ISR may
// be the only others that have what was acknowledged, so whose power may be cut does
// without in safe topics: those would be two losses. Nor is a safe move cancelled where
// nobody leads: that takes away the last known leader, where it was being added.
func (l *load) cancelReassignments() {
	for t := range l.w.check.newestImage().Topics() {
		if safe(t.Name) && l.w.mix.faults["power cut"] > 0 {
			continue
		}
		for p := range t.Partitions() {
			if safe(t.Name) && p.Leader < 0 {
				continue
			}
			if len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 {
				l.alterAssignments(target{t, p}, nil)
				return
			}
		}
	}
}

func (l *load) alterAssignments(t target, replicas []int32) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = t.topic.Name
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Partition, rp.Replicas = t.partition.ID, replicas
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	l.ask(l.anyBroker(), req, nil)
}

func (l *load) electLeaders() {
	unclean := l.w.rng.IntN(4) == 0
	if t, ok := l.anyPartition(unclean); ok {
		l.elect(t.topic.Name, t.partition.ID, unclean)
	}
}

func (l *load) elect(topic string, partition int32, unclean bool) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 5000
	if unclean {
		req.ElectionType = 1
	}
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	l.ask(l.anyBroker(), req, nil)
}

func (l *load) configure() {
	w := l.w
	t, ok := l.anyPartition(true)
	if !ok {
		return
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t.topic.Name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	choice := [][2]string{
		{"min.insync.replicas", "1"},
		{"min.insync.replicas", "2"},
		{"min.insync.replicas", "3"},
		{"unclean.leader.election.enable", "true"},
		{"unclean.leader.election.enable", "false"},
		{"message.timestamp.type", "LogAppendTime"},
	}[w.rng.IntN(6)]
	c.Name, c.Value = choice[0], &choice[1]
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	l.ask(l.anyBroker(), req, nil)
}

// unregister removes a broker, which is then restarted, as an administrator would.
func (l *load) unregister() {
	w := l.w
	if w.rng.IntN(3) > 0 || w.mix.faults["power cut"] > 0 {
		return
	}
	n := l.anyBroker()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(n.id)
	l.ask(l.anyBroker(), req, nil)
	w.after(w.outage(), "", func() {
		n.kill(nil)
		w.restart(n)
	})
}

func (l *load) allocate() {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60000
	l.ask(l.anyBroker(), req, nil)
}

func (l *load) list() {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 5000
	l.ask(l.anyBroker(), req, nil)
}
