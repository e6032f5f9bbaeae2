package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/storage"
)

// key names a partition.
type key struct {
	topic     protocol.UUID
	partition int32
}

type brokerLife struct {
	id    protocol.NodeID
	epoch protocol.BrokerEpoch
}

// checks is what has been seen, and what is wrong with it. Invariants have the
// numbers of docs/architecture.md.
type checks struct {
	w *world

	counts

	mu         sync.Mutex
	newest     *metadata.Image // of all that are published anywhere
	digests    map[int64]string
	leaders    map[key]map[protocol.LeaderEpoch]protocol.NodeID
	epochs     map[key]protocol.PartitionEpoch // the highest
	partitions map[protocol.UUID]int           // of topics that were ever there
	deleted    map[protocol.UUID]bool
	lives      map[brokerLife]bool // ever registered
	unfenced   map[brokerLife]bool // ever
	acked      map[key]map[int64]string
	highest    map[key]int64 // of all acknowledged offsets
	seen       map[key]map[int64]string
	// committedEnds are beyond all offsets of safe partitions that anybody saw.
	committedEnds map[key]int64
	blocks        map[int64]bool // of producer ids, by their first
	lastLook      time.Time
}

func (c *checks) init(w *world) {
	*c = checks{
		w: w, newest: metadata.Empty(), digests: map[int64]string{},
		leaders: map[key]map[protocol.LeaderEpoch]protocol.NodeID{}, epochs: map[key]protocol.PartitionEpoch{},
		partitions: map[protocol.UUID]int{}, deleted: map[protocol.UUID]bool{},
		lives: map[brokerLife]bool{}, unfenced: map[brokerLife]bool{},
		acked: map[key]map[int64]string{}, highest: map[key]int64{}, seen: map[key]map[int64]string{},
		committedEnds: map[key]int64{},
		blocks:        map[int64]bool{},
	}
}

func safe(topic string) bool { return strings.HasPrefix(topic, "safe") }

func (c *checks) newestImage() *metadata.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

func (c *checks) committedOffset() int64 { return c.newestImage().Offset() }

// watcher sees every image of a life.
type watcher struct {
	w     *world
	node  protocol.NodeID
	began bool
}

func (v *watcher) Publish(delta *metadata.Delta, img *metadata.Image) {
	c := &v.w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	if img.Offset() < 0 {
		return
	}
	c.equal(v, img)
	for topic := range delta.ChangedTopics() {
		c.topicChanged(v, topic, img)
	}
	if img.Offset() > c.newest.Offset() {
		c.comesBack(c.newest, img)
		c.newest = img
		c.fencedLead(img)
	}
}

// equal is invariant 8. A digest costs the whole image, so not all are compared.
func (c *checks) equal(v *watcher, img *metadata.Image) {
	_, known := c.digests[img.Offset()]
	if img.Offset()%7 != 0 && v.began && !known {
		return
	}
	v.began = true
	digest := img.Digest()
	if !known {
		c.digests[img.Offset()] = digest
	} else if c.digests[img.Offset()] != digest {
		v.w.failf("invariant 8: the image of node %d at offset %d is another than elsewhere", v.node, img.Offset())
	}
}

func (c *checks) topicChanged(v *watcher, topic metadata.TopicChange, img *metadata.Image) {
	for before, after := range topic.Partitions() {
		if after == nil {
			continue
		}
		if img.Offset() > c.newest.Offset() && before != nil {
			v.w.tracef("%s-%d: %s → %s", topic.Name, after.ID, brief(before), brief(after))
		}
		k := key{topic.ID, after.ID}
		if before != nil && (after.LeaderEpoch < before.LeaderEpoch || after.PartitionEpoch < before.PartitionEpoch) {
			v.w.failf("invariant 4: at node %d %s-%d goes from leader epoch %d, partition epoch %d to %d, %d", v.node,
				topic.Name, after.ID, before.LeaderEpoch, before.PartitionEpoch, after.LeaderEpoch, after.PartitionEpoch)
		}
		if after.Leader == protocol.NoNode {
			continue
		}
		of := c.leaders[k]
		if of == nil {
			of = map[protocol.LeaderEpoch]protocol.NodeID{}
			c.leaders[k] = of
		}
		if leader, ok := of[after.LeaderEpoch]; ok && leader != after.Leader {
			v.w.failf("invariant 4: %s-%d has in leader epoch %d the leaders %d and %d", topic.Name, after.ID, after.LeaderEpoch, leader, after.Leader)
		}
		if of[after.LeaderEpoch] != after.Leader {
			c.counts.leaders++
		}
		of[after.LeaderEpoch] = after.Leader
	}
}

// committed takes note of a batch that the first node has applied, to an image. What it
// does and undoes again no image shows.
func (c *checks) committed(b batch.Batch, to *metadata.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	elr := eligible{image: to, changed: map[key]places{}}
	err := record.Each(b, func(e record.Entry) error {
		switch r := e.Record.(type) {
		case *record.RegisterBroker:
			c.lives[brokerLife{r.BrokerID, r.BrokerEpoch}] = true
		case *record.BrokerRegistrationChange:
			if r.Fenced < 0 {
				c.unfenced[brokerLife{r.BrokerID, r.BrokerEpoch}] = true
			}
		case *record.RemoveTopic:
			c.deleted[r.TopicID] = true
		case *record.Partition:
			c.partitions[r.TopicID] = max(c.partitions[r.TopicID], int(r.PartitionID)+1)
		case *record.PartitionChange:
			c.epochs[key{r.TopicID, r.PartitionID}]++
			elr.change(r)
		case *record.ClearELR:
			for _, k := range elr.clear(r) {
				c.epochs[k]++
			}
		}
		return nil
	})
	if err != nil {
		c.w.failf("a committed batch can not be read: %v", err)
	}
}

// eligible is who is eligible while a batch is applied to an image: where they are
// cleared the epochs of their partitions go up, and no record names these.
type eligible struct {
	image   *metadata.Image
	changed map[key]places // by the batch
}

// places are how many replicas are eligible, and how many led last.
type places struct{ eligible, last int }

func (e eligible) of(k key, p *metadata.Partition) places {
	if now, ok := e.changed[k]; ok || p == nil {
		return now
	}
	return places{len(p.ELR), len(p.LastKnownELR)}
}

func (e eligible) change(r *record.PartitionChange) {
	k := key{r.TopicID, r.PartitionID}
	var p *metadata.Partition
	if t, ok := e.image.TopicByID(r.TopicID); ok {
		p, _ = t.Partition(r.PartitionID)
	}
	now := e.of(k, p)
	if r.ELR != nil {
		now.eligible = len(r.ELR)
	}
	if r.LastKnownELR != nil {
		now.last = len(r.LastKnownELR)
	}
	e.changed[k] = now
}

// clear returns the partitions that had some.
func (e eligible) clear(r *record.ClearELR) (had []key) {
	for t := range e.image.Topics() {
		if r.TopicName != "" && r.TopicName != t.Name {
			continue
		}
		for p := range t.Partitions() {
			k := key{t.ID, p.ID}
			if e.of(k, p) != (places{}) {
				had = append(had, k)
				e.changed[k] = places{}
			}
		}
	}
	return had
}

// brief is a partition in a line.
func brief(p *metadata.Partition) string {
	s := fmt.Sprintf("leader %d/%d of %v, ISR %v", p.Leader, p.LeaderEpoch, p.Replicas, p.ISR)
	names := []string{"ELR", "last known", "adding", "removing"}
	for i, ids := range [][]protocol.NodeID{p.ELR, p.LastKnownELR, p.AddingReplicas, p.RemovingReplicas} {
		if len(ids) > 0 {
			s += fmt.Sprintf(", %s %v", names[i], ids)
		}
	}
	return s
}

// comesBack is what a registration does to who has not stopped in order: it may have
// lost records, and is no member of anything on the strength of what it had (KIP-966).
func (c *checks) comesBack(before, img *metadata.Image) {
	for b := range img.Brokers() {
		n := c.w.node(b.ID)
		if old, ok := before.Broker(b.ID); ok && old.Epoch == b.Epoch || !n.unclean {
			continue
		}
		n.unclean = false
		for t, p := range img.PartitionsOn(b.ID) {
			if p.Leader == b.ID || slices.Contains(p.ISR, b.ID) || slices.Contains(p.ELR, b.ID) {
				c.w.failf("at offset %d broker %d, which did not stop in order, is back in %s-%d: %s", img.Offset(), b.ID, t.Name, p.ID, brief(p))
			}
		}
	}
}

// fencedLead is invariant 10.
func (c *checks) fencedLead(img *metadata.Image) {
	fenced := func(id protocol.NodeID) bool {
		b, ok := img.Broker(id)
		return !ok || b.Fenced
	}
	elr, _ := img.Feature(feature.ELR)
	for topic := range img.Topics() {
		for p := range topic.Partitions() {
			if p.Leader != protocol.NoNode && fenced(p.Leader) {
				c.w.failf("invariant 10: at offset %d %s-%d is led by %d, which is fenced", img.Offset(), topic.Name, p.ID, p.Leader)
			}
			if p.Leader != protocol.NoNode && !slices.Contains(p.ISR, p.Leader) {
				c.w.failf("at offset %d %s-%d is led by %d, which is not in its ISR %v", img.Offset(), topic.Name, p.ID, p.Leader, p.ISR)
			}
			if elr > 0 && slices.ContainsFunc(p.ISR, fenced) {
				c.w.failf("invariant 10: at offset %d %s-%d has fenced brokers in its ISR %v", img.Offset(), topic.Name, p.ID, p.ISR)
			}
		}
	}
}

// answered looks at an answer as it leaves a node: nothing is said to be done that
// is not committed (invariant 9), and nothing acknowledged that too few have.
func (c *checks) answered(n *node, m *message, req kmsg.Request, out []byte) {
	resp := req.ResponseKind()
	resp.SetVersion(m.version)
	switch m.key {
	case int16(kmsg.Produce):
		if req.(*kmsg.ProduceRequest).Acks != -1 {
			return
		}
	case int16(kmsg.Envelope):
		if m.conn.kind != protocol.ControllerListener || resp.ReadFrom(out) != nil || resp.(*kmsg.EnvelopeResponse).ErrorCode != 0 {
			return
		}
		c.answeredInside(n, req.(*kmsg.EnvelopeRequest), resp.(*kmsg.EnvelopeResponse))
		return
	case int16(kmsg.BrokerRegistration), int16(kmsg.BrokerHeartbeat), int16(kmsg.AlterPartition), int16(kmsg.AllocateProducerIDs):
	default:
		return
	}
	if err := resp.ReadFrom(out); err != nil {
		c.w.failf("node %d answers %s with what can not be read: %v", n.id, kmsg.NameForKey(m.key), err)
		return
	}
	c.done(n, req, resp)
}

func (c *checks) answeredInside(n *node, env *kmsg.EnvelopeRequest, answer *kmsg.EnvelopeResponse) {
	header, body, err := protocol.ParseRequestHeader(env.RequestData)
	if err != nil {
		return
	}
	req := kmsg.RequestForKey(header.Key)
	req.SetVersion(header.Version)
	resp := req.ResponseKind()
	resp.SetVersion(header.Version)
	skip := len(protocol.AppendResponseHeader(nil, header.Key, header.Version, header.CorrelationID))
	if req.ReadFrom(body) != nil || len(answer.ResponseData) < skip || resp.ReadFrom(answer.ResponseData[skip:]) != nil {
		c.w.failf("node %d answers an envelope with what can not be read", n.id)
		return
	}
	c.done(n, req, resp)
}

func (c *checks) done(n *node, req kmsg.Request, resp kmsg.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	early := func(what string, args ...any) {
		c.w.failf("invariant 9: node %d answers that %s, and that is not committed", n.id, fmt.Sprintf(what, args...))
	}
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					c.held(n, key{t.TopicID, p.Partition}, p.BaseOffset)
				}
			}
		}
	case *kmsg.BrokerRegistrationResponse:
		of := brokerLife{protocol.NodeID(req.(*kmsg.BrokerRegistrationRequest).BrokerID), protocol.BrokerEpoch(r.BrokerEpoch)}
		if r.ErrorCode == 0 && !c.lives[of] {
			early("broker %d is registered with epoch %d", of.id, of.epoch)
		}
	case *kmsg.BrokerHeartbeatResponse:
		q := req.(*kmsg.BrokerHeartbeatRequest)
		if r.ErrorCode == 0 && !r.IsFenced && !c.unfenced[brokerLife{protocol.NodeID(q.BrokerID), protocol.BrokerEpoch(q.BrokerEpoch)}] {
			early("broker %d is unfenced", q.BrokerID)
		}
	case *kmsg.AlterPartitionResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && protocol.PartitionEpoch(p.PartitionEpoch) > c.epochs[key{t.TopidID, p.Partition}] {
					early("a partition has epoch %d", p.PartitionEpoch)
				}
			}
		}
	case *kmsg.AllocateProducerIDsResponse:
		if r.ErrorCode == 0 && r.ProducerIDStart+int64(r.ProducerIDLen) > c.newest.NextProducerID() {
			early("producer ids up to %d are given out", r.ProducerIDStart+int64(r.ProducerIDLen))
		}
		if r.ErrorCode == 0 { // B134 of package faults
			if c.blocks[r.ProducerIDStart] {
				c.w.failf("node %d gives out the producer ids from %d on a second time", n.id, r.ProducerIDStart)
			}
			c.blocks[r.ProducerIDStart] = true
		}
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && c.partitions[t.TopicID] == 0 {
				early("%s is created", t.Topic)
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && !c.deleted[t.TopicID] {
				early("a topic is deleted")
			}
		}
	case *kmsg.CreatePartitionsResponse:
		for i, t := range r.Topics {
			if known, ok := c.newest.Topic(t.Topic); ok && t.ErrorCode == 0 && c.partitions[known.ID] < int(req.(*kmsg.CreatePartitionsRequest).Topics[i].Count) {
				early("%s has more partitions", t.Topic)
			}
		}
	}
}

// step looks at the replicas, while everything is at rest.
func (c *checks) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps%4 != 0 {
		return
	}
	for topic := range c.newest.Topics() {
		for p := range topic.Partitions() {
			c.leads(topic, p)
		}
	}
}

// log is a node's log of a partition, nil where it has none now.
func (c *checks) log(id protocol.NodeID, topic *metadata.Topic, partition int32) *storage.Log {
	l := c.w.node(id).running()
	if l == nil || l.store == nil {
		return nil
	}
	log, ok := l.store.Get(protocol.TopicPartition{Topic: topic.Name, Partition: partition})
	if !ok || log.TopicID() != topic.ID {
		return nil
	}
	return log
}

// leads is invariants 3 and 4 at who leads by the newest image: everybody in sync
// has what is committed, and nobody else believes to lead this epoch.
func (c *checks) leads(topic *metadata.Topic, p *metadata.Partition) {
	k := key{topic.ID, p.ID}
	for _, id := range p.Replicas {
		l := c.w.node(id).running()
		if l == nil || l.repl == nil {
			continue
		}
		r, ok := l.repl.Partition(topic.ID, p.ID)
		if !ok {
			continue
		}
		hw, hosted := r.HighWatermark()
		if hosted && safe(topic.Name) {
			c.agrees(l, topic, r, hw)
		}
		if _, _, err := r.EndOffsetForEpoch(p.LeaderEpoch, p.LeaderEpoch); err != nil {
			continue
		}
		if id != p.Leader {
			c.w.failf("invariant 4: node %d leads %s-%d in epoch %d, whose leader is %d", id, topic.Name, p.ID, p.LeaderEpoch, p.Leader)
			return
		}
		log := c.log(id, topic, p.ID)
		if log == nil {
			continue
		}
		for _, member := range p.ISR {
			if other := c.log(member, topic, p.ID); other != nil && other.LEO() < hw {
				c.w.failf("invariant 3: %s-%d has the high watermark %d, and %d of its ISR %v ends at %d", topic.Name, p.ID, hw, member, p.ISR, other.LEO())
			}
		}
		if end := c.committedEnds[k]; end > log.LEO() {
			c.w.failf("invariant 1: %s-%d is led in epoch %d by %d, whose log ends at %d, and what is below %d was acknowledged or seen", topic.Name, p.ID, p.LeaderEpoch, id, log.LEO(), end)
			return
		}
	}
}

// whole tells whether everything is back.
func (c *checks) whole() bool {
	if now := time.Now(); now.Sub(c.lastLook) < 100*time.Millisecond {
		return false
	}
	c.lastLook = time.Now()
	return c.missing() == ""
}

// missing says what is not back yet.
func (c *checks) missing() string {
	img := c.newestImage()
	for _, n := range c.w.nodes {
		l := n.running()
		if l == nil {
			return fmt.Sprintf("node %d is down", n.id)
		}
		if at := l.replayer.Image().Offset(); at != img.Offset() {
			return fmt.Sprintf("node %d is at offset %d of %d", n.id, at, img.Offset())
		}
		if !n.broker {
			continue
		}
		if b, ok := img.Broker(n.id); !ok || b.Fenced || b.Epoch != l.broker.Epoch() {
			return fmt.Sprintf("broker %d is fenced", n.id)
		}
	}
	for i := range 2 {
		if name := fmt.Sprintf("safe%d", i); !has(img, name) {
			return name + " is not created"
		}
	}
	for topic := range img.Topics() {
		for p := range topic.Partitions() {
			name := fmt.Sprintf("%s-%d", topic.Name, p.ID)
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) || len(p.AddingReplicas)+len(p.RemovingReplicas) > 0 {
				return fmt.Sprintf("%s is %+v", name, *p)
			}
			leader := c.log(p.Leader, topic, p.ID)
			for _, id := range p.Replicas {
				log := c.log(id, topic, p.ID)
				if log == nil || leader == nil || log.LEO() != leader.LEO() {
					return name + " is not replicated"
				}
			}
			r, ok := c.w.node(p.Leader).running().repl.Partition(topic.ID, p.ID)
			if !ok {
				return name + " has no replica"
			}
			if hw, _ := r.HighWatermark(); hw != leader.LEO() {
				return fmt.Sprintf("%s is committed up to %d of %d", name, hw, leader.LEO())
			}
			k := key{topic.ID, p.ID}
			if i := c.w.load.producers[k]; i != nil && len(i.line) > 0 {
				return fmt.Sprintf("%d batches of producer %d for %s are not acknowledged", len(i.line), i.id, name)
			}
			if r := c.w.load.consumers[k]; r != nil && r.position < leader.LEO() {
				return fmt.Sprintf("the consumer of %s has not seen offset %d", name, r.position)
			}
		}
	}
	return ""
}

// final compares everything, once the cluster is whole.
func (c *checks) final() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var digest string
	for _, n := range c.w.nodes {
		if got := n.running().replayer.Image().Digest(); digest == "" {
			digest = got
		} else if got != digest {
			c.w.failf("invariant 8: the images differ at the end")
		}
	}
	for topic := range c.newest.Topics() {
		for p := range topic.Partitions() {
			c.finalPartition(topic, p)
		}
	}
}
