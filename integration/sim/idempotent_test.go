package sim

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

const (
	// mostInFlight is how many batches of one producer and partition are on their
	// way: as many as a broker remembers.
	mostInFlight = 5
	// produceTimeout is the broker's, a client waits longer.
	produceTimeout = 3 * time.Second
	clientTimeout  = 4 * time.Second
)

// idempotent is an idempotent producer of one safe partition. It behaves as clients
// do: several batches on one connection, in order; what it does not know to have been
// appended it sends again, in order and often on another connection. All of it is the
// driver's.
type idempotent struct {
	w     *world
	at    key
	topic string

	id       int64   // −1 until it has one
	known    bool    // by the partition's leader: a batch was acknowledged
	asking   *flight // for an id
	sequence int32   // of the next record
	number   int     // of the next batch
	line     []*outgoing

	conn *conn
	to   *node
}

// outgoing is a batch that is not known to be committed.
type outgoing struct {
	number  int
	first   int32 // sequence
	values  []string
	records []byte

	flight *flight // nil: it has to be sent
	alone  bool    // when it was sent all before it were acknowledged
	epoch  protocol.LeaderEpoch
}

// hire has an idempotent producer for each safe partition.
func (l *load) hire() {
	for t := range l.w.check.newestImage().Topics() {
		if !safe(t.Name) {
			continue
		}
		for p := range t.Partitions() {
			at := key{t.ID, p.ID}
			if l.producers[at] == nil {
				l.producers[at] = &idempotent{w: l.w, at: at, topic: t.Name, id: -1}
				l.w.after(0, "", l.producers[at].tick)
			}
		}
	}
	if !l.stopped {
		l.w.after(time.Second, "", l.hire)
	}
}

// tick is one step of a producer. Once there is no more load it goes on until it has
// heard of everything.
func (i *idempotent) tick() {
	w, stopped := i.w, i.w.load.stopped
	if stopped && len(i.line) == 0 {
		i.hangUp()
		return
	}
	w.after(w.between(time.Millisecond, 60*time.Millisecond), "", i.tick)
	if i.id < 0 {
		i.askForID()
		return
	}
	if !stopped && w.rng.IntN(500) == 0 { // it ends, and another one begins
		i.hangUp()
		i.id, i.line = -1, nil
		return
	}
	i.look()
	if !stopped && w.rng.IntN(3) == 0 && (len(i.line) == 0 || i.number-i.line[0].number < mostInFlight) {
		i.compose()
	}
	i.send()
}

func (i *idempotent) askForID() {
	if i.asking == nil {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 60000
		if i.conn = i.w.connect(i.w.load.anyBroker()); i.conn != nil {
			i.asking = i.w.fly(i.conn, req, clientTimeout)
		}
		return
	}
	resp, over := i.asking.landed()
	if !over {
		return
	}
	i.asking = nil
	i.hangUp()
	if r, ok := resp.(*kmsg.InitProducerIDResponse); ok && r.ErrorCode == 0 {
		i.id, i.known, i.sequence, i.number = r.ProducerID, false, 0, 0
		if i.w.load.ids[i.id] {
			i.w.failf("two producers have the id %d", i.id)
		}
		i.w.load.ids[i.id] = true
	}
}

const idempotentValue = "producer %d, sequence %d"

func (i *idempotent) compose() {
	o := &outgoing{number: i.number, first: i.sequence}
	b := batch.NewBuilder(batch.Options{Producer: &batch.Producer{ID: i.id, BaseSequence: i.sequence}})
	for range 1 + i.w.rng.IntN(3) {
		value := fmt.Sprintf(idempotentValue, i.id, i.sequence)
		b.Append(batch.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(value)})
		o.values = append(o.values, value)
		i.sequence++
	}
	i.number++
	var err error
	if o.records, err = b.Build(); err != nil {
		i.w.failf("build a batch: %v", err)
	}
	i.line = append(i.line, o)
}

// leader is who leads the partition by the newest image.
func (i *idempotent) leader() (protocol.NodeID, protocol.LeaderEpoch) {
	if t, ok := i.w.check.newestImage().TopicByID(i.at.topic); ok {
		if p, ok := t.Partition(i.at.partition); ok {
			return p.Leader, p.LeaderEpoch
		}
	}
	return protocol.NoNode, -1
}

// send sends the first batch that has to be sent. One at a step: what one connection
// carries keeps its order.
func (i *idempotent) send() {
	leader, epoch := i.leader()
	if i.conn == nil {
		i.to = i.w.load.anyBroker()
		if leader >= 0 && i.w.rng.IntN(20) > 0 {
			i.to = i.w.node(leader)
		}
		if i.conn = i.w.connect(i.to); i.conn == nil {
			return
		}
	}
	for at, o := range i.line {
		if !i.known && at > 0 {
			return // a leader takes any sequence for the first of a producer
		}
		if o.flight != nil {
			continue
		}
		req := produceRequest(i.topic, i.at, o.records, -1)
		o.flight, o.alone, o.epoch = i.w.fly(i.conn, req, clientTimeout), at == 0, epoch
		if i.to.id != leader {
			o.alone = false
		}
		return
	}
}

// hangUp gives up the connection: what was on its way has to be sent again.
func (i *idempotent) hangUp() {
	if i.conn != nil {
		_ = i.conn.Close()
		i.conn = nil
	}
	for _, o := range i.line {
		o.flight = nil
	}
}

// look looks at what was answered.
func (i *idempotent) look() {
	line := i.line
	for _, o := range line {
		if o.flight == nil {
			continue
		}
		resp, over := o.flight.landed()
		if !over {
			continue
		}
		r, ok := resp.(*kmsg.ProduceResponse)
		if !ok {
			i.hangUp()
			return
		}
		o.flight = nil
		i.answered(o, r.Topics[0].Partitions[0])
		if i.conn == nil {
			return
		}
	}
}

func (i *idempotent) answered(o *outgoing, p kmsg.ProduceResponseTopicPartition) {
	switch code := protocol.Error(p.ErrorCode); code {
	case protocol.None:
		i.known = true
		for n, value := range o.values {
			i.w.check.acknowledged(i.at, i.topic, p.BaseOffset+int64(n), value, -1)
		}
		for n := range i.line {
			if i.line[n] == o {
				i.line = append(i.line[:n:n], i.line[n+1:]...)
				break
			}
		}
	case protocol.ErrOutOfOrderSequenceNumber:
		// Of one that was sent behind another it says only that the other failed. A
		// leader that has been replaced may not have what its successor acknowledged.
		if leader, epoch := i.leader(); o.alone && leader == i.to.id && epoch == o.epoch {
			i.w.failf("invariant 5: %s-%d, led by %d in epoch %d, expects of producer %d another sequence than %d, and all before were acknowledged",
				i.topic, i.at.partition, leader, epoch, i.id, o.first)
		}
	case protocol.ErrNotEnoughReplicas, protocol.ErrNotEnoughReplicasAfterAppend, protocol.ErrRequestTimedOut:
	case protocol.ErrNotLeaderForPartition, protocol.ErrUnknownTopicOrPartition, protocol.ErrUnknownTopicID, protocol.ErrKafkaStorageError:
		i.hangUp()
	default: // DUPLICATE_SEQUENCE_NUMBER too: a broker remembers as many as are in flight
		i.w.failf("invariant 5: producer %d is answered %v for sequence %d of %s-%d", i.id, code, o.first, i.topic, i.at.partition)
	}
}
