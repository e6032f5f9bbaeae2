package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// script drives a small cluster step by step: one controller, node 1, and the
// brokers from 2 on, of which 2 leads the one partition of a topic.
// Nothing happens in it by chance but how long messages take. Invariants are looked
// at after each step as in any run.
type script struct {
	*world
	topic string
	acked []string // values, in order
}

func newScript(t *testing.T, brokers int, topic string) *script {
	rng := rand.New(rand.NewPCG(1, 0))
	m := mix{brokers: brokers, controllers: 1, evidence: true}
	return &script{world: newWorld(t, 1, rng, m, false), topic: topic}
}

// begin starts the cluster and makes the topic.
func (s *script) begin(configs map[string]string) {
	for _, n := range s.nodes {
		s.after(s.between(0, 50*time.Millisecond), "", n.start)
	}
	s.startQuorum()
	s.until("the brokers serve", func() bool {
		for _, n := range s.brokers() {
			if n.listens(protocol.BrokerListener) == 0 {
				return false
			}
		}
		return true
	})
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.topic, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	for _, n := range s.brokers() {
		a.Replicas = append(a.Replicas, int32(n.id))
	}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	s.load.ask(s.node(2), req, nil)
	s.until("there is a leader", func() bool { return s.leading() != nil })
}

// until drives until something holds, for a minute at most.
func (s *script) until(what string, holds func() bool) {
	if holds() {
		return
	}
	s.drive(time.Minute, holds)
	if s.failure() == "" && !holds() {
		s.failf("in a minute it never was that %s", what)
	}
}

// partition is the one there is, by the newest image; nil before it is created.
func (s *script) partition() (*metadata.Topic, *metadata.Partition) {
	t, ok := s.check.newestImage().Topic(s.topic)
	if !ok {
		return nil, nil
	}
	p, _ := t.Partition(0)
	return t, p
}

// leading is the broker that leads, and knows it; nil where there is none.
func (s *script) leading() *node {
	t, p := s.partition()
	if p == nil || p.Leader < 0 {
		return nil
	}
	l := s.node(p.Leader).running()
	if l == nil || l.repl == nil {
		return nil
	}
	if r, ok := l.repl.Partition(t.ID, 0); ok {
		if _, _, err := r.EndOffsetForEpoch(p.LeaderEpoch, p.LeaderEpoch); err == nil {
			return l.n
		}
	}
	return nil
}

// leo and highWatermark are a replica's, −1 where it is not there.
func (s *script) leo(id protocol.NodeID) int64 {
	t, _ := s.partition()
	if log := s.check.log(id, t, 0); log != nil {
		return log.LEO()
	}
	return -1
}

func (s *script) highWatermark(id protocol.NodeID) int64 {
	t, _ := s.partition()
	l := s.node(id).running()
	if l == nil || l.repl == nil {
		return -1
	}
	r, ok := l.repl.Partition(t.ID, 0)
	if !ok {
		return -1
	}
	hw, _ := r.HighWatermark()
	return hw
}

// produce sends a value to who leads. What comes of it is known later.
func (s *script) produce(value string, acks int16) *flight {
	t, _ := s.partition()
	n := s.leading()
	if n == nil {
		return nil
	}
	b := batch.NewBuilder(batch.Options{})
	b.Append(batch.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(value)})
	records, err := b.Build()
	if err != nil {
		s.failf("build a batch: %v", err)
		return nil
	}
	c := s.connect(n)
	if c == nil {
		return nil
	}
	return s.fly(c, produceRequest(s.topic, key{t.ID, 0}, records, acks), 10*time.Second)
}

// outcome is what a producer knows of a value.
func (s *script) outcome(value string, f *flight) string {
	if f == nil {
		return "not sent"
	}
	resp, over := f.landed()
	r, ok := resp.(*kmsg.ProduceResponse)
	switch {
	case !over:
		return "not answered"
	case !ok:
		return "cut off"
	}
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return protocol.Error(p.ErrorCode).Error()
	}
	if !slices.Contains(s.acked, value) {
		s.check.acknowledged(s.key(), s.topic, p.BaseOffset, value, -1)
		s.acked = append(s.acked, value)
	}
	return "acknowledged"
}

func (s *script) key() key {
	t, _ := s.partition()
	return key{t.ID, 0}
}

// stop ends a node in a way.
func (s *script) stop(n *node, how string) {
	switch how {
	case "clean":
		n.shutDown()
		s.until("the node has stopped", n.dead)
	case "kill":
		n.kill(nil)
	case "power cut":
		n.cutPower()
	}
}

// lead makes a broker the preferred leader, and has it elected.
func (s *script) lead(n *node) {
	t, p := s.partition()
	replicas := []int32{int32(n.id)}
	for _, id := range p.Replicas {
		if id != n.id {
			replicas = append(replicas, int32(id))
		}
	}
	s.load.alterAssignments(target{t, p}, replicas)
	s.drive(20*time.Millisecond, nil)
	s.load.elect(s.topic, 0, false)
	s.until("it leads", func() bool { return s.leading() == n })
}

// content is a replica's log, each value with its leader epoch.
func (s *script) content(id protocol.NodeID) string {
	t, _ := s.partition()
	log := s.check.log(id, t, 0)
	if log == nil {
		return "none"
	}
	all, err := s.check.content(log)
	if err != nil {
		return err.Error()
	}
	var out []string
	s.check.each(all, func(offset int64, value string) {
		out = append(out, fmt.Sprintf("%s/%d", value, log.EpochFor(offset)))
	})
	return strings.Join(out, " ")
}

// secondRound keeps back the second round of replication from the leader, or where it
// is half, what the leader says to it.
func (s *script) secondRound(half bool) {
	leader := s.leading().id
	end := s.leo(leader)
	s.net.gate = func(m *message) bool {
		if m.key != int16(kmsg.Fetch) || m.conn.kind != protocol.BrokerListener {
			return false
		}
		if half {
			return m.kind == "answer" && m.from == leader && s.highWatermark(leader) > end
		}
		return m.kind == "request" && m.to == leader && m.from != outside && s.leo(m.from) > end
	}
}

// open lets what was kept back arrive, or get lost.
func (s *script) open(lost bool) {
	gated := s.net.gated
	s.net.gate, s.net.gated = nil, nil
	for _, m := range gated {
		if !lost {
			s.net.dispatch(m)
		}
	}
}
