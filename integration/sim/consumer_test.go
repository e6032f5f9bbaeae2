package sim

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// consumer reads one safe partition from its beginning on, as clients do: it goes on
// behind what it has. All of it is the driver's.
type consumer struct {
	w        *world
	at       key
	topic    string
	position int64
	asked    *flight
	from     *conn
}

// subscribe has a consumer for each safe partition.
func (l *load) subscribe() {
	for t := range l.w.check.newestImage().Topics() {
		if !safe(t.Name) {
			continue
		}
		for p := range t.Partitions() {
			at := key{t.ID, p.ID}
			if l.consumers[at] == nil {
				l.consumers[at] = &consumer{w: l.w, at: at, topic: t.Name}
				l.w.after(0, "", l.consumers[at].tick)
			}
		}
	}
	if !l.stopped {
		l.w.after(time.Second, "", l.subscribe)
	}
}

func (c *consumer) tick() {
	w := c.w
	w.after(w.between(10*time.Millisecond, 300*time.Millisecond), "", c.tick)
	if c.asked != nil {
		resp, over := c.asked.landed()
		if !over {
			return
		}
		_ = c.from.Close()
		c.asked, c.from = nil, nil
		if r, ok := resp.(*kmsg.FetchResponse); ok && r.ErrorCode == 0 {
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					c.position = w.check.read(c.at, c.topic, c.position, p)
				}
			}
		}
	}
	t, ok := w.check.newestImage().TopicByID(c.at.topic)
	if !ok {
		return
	}
	p, ok := t.Partition(c.at.partition)
	if !ok || p.Leader < 0 {
		return
	}
	if c.from = w.connect(w.node(p.Leader)); c.from == nil {
		return
	}
	epoch := p.LeaderEpoch
	if w.rng.IntN(2) == 0 {
		epoch = -1
	}
	c.asked = w.fly(c.from, fetchRequest(c.topic, c.at, c.position, epoch), clientTimeout)
}

// fetchRequest is a consumer's, without a session.
func fetchRequest(topic string, at key, offset int64, epoch protocol.LeaderEpoch) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.ReplicaState.ID = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 100, 1, 4<<10, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, at.topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.PartitionMaxBytes = at.partition, int32(epoch), -1, 4<<10
	p.FetchOffset = offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
