package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// pieces is a world of three brokers with 250 partitions, of which a decision
// changes 100 at most.
type pieces struct {
	*world
	epochs map[int32]protocol.BrokerEpoch
	silent []int32 // who sends no heartbeats
}

func inPieces(t *testing.T, do func(w *pieces)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Env.MaxPartitions = 100
		w := &pieces{world: newWorld(t, cfg), epochs: map[int32]protocol.BrokerEpoch{}}
		defer w.stop()
		for id := range int32(3) {
			w.epochs[id+1] = w.join(id+1, byte('a'+id))
		}
		fill(t, w.c, crowd(250))
		w.machine.take()
		do(w)
	})
}

// live lets a second pass, with a heartbeat of each broker that lives.
func (w *pieces) live() {
	for id, epoch := range w.epochs {
		if !slices.Contains(w.silent, id) {
			w.c.Heartbeat(beat(id, epoch, w.machine.Image().Offset()), soon())
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// with counts the partitions that are led by a broker, or have it in their ISR.
func with(img *metadata.Image, id protocol.NodeID) (led, inSync int) {
	for topic := range img.Topics() {
		for p := range topic.Partitions() {
			if p.Leader == id {
				led++
			}
			if slices.Contains(p.ISR, id) {
				inSync++
			}
		}
	}
	return led, inSync
}

func (w *pieces) broker(id protocol.NodeID) *metadata.Broker {
	b, _ := w.machine.Image().Broker(id)
	return b
}

// operation is one that is about all partitions of a broker.
type operation struct {
	name    string
	victim  protocol.NodeID // it has left all ISRs when the operation is done
	prepare func(w *pieces)
	// ask asks for it, as whoever wants it does again and again until it is done.
	ask  func(w *pieces)
	done func(w *pieces) bool
}

var operations = []operation{
	{
		name: "fence", victim: 2,
		prepare: func(w *pieces) { w.silent = []int32{2} },
		ask:     func(w *pieces) { w.live() },
		done:    func(w *pieces) bool { return w.broker(2).Fenced },
	},
	{
		name: "controlled shutdown", victim: 2,
		prepare: func(w *pieces) { w.silent = []int32{2} },
		ask: func(w *pieces) {
			leave := beat(2, w.epochs[2], w.machine.Image().Offset())
			leave.WantShutdown = true
			p := w.c.Heartbeat(leave, soon())
			synctest.Wait()
			if len(p.op.done) == 1 {
				if resp, err := p.Wait(w.t.Context()); err == nil && resp.ShouldShutdown {
					if led, inSync := with(w.machine.Image(), 2); led+inSync > 0 {
						w.t.Errorf("broker 2 may go, leads %d partitions and is in %d ISRs", led, inSync)
					}
				}
			}
			w.live()
		},
		done: func(w *pieces) bool { return w.broker(2).Fenced },
	},
	{
		name: "unregistration", victim: 2,
		ask: func(w *pieces) {
			w.c.UnregisterBroker(2, "", soon())
			w.silent = []int32{2}
			w.live()
		},
		done: func(w *pieces) bool { return w.broker(2) == nil },
	},
	{
		// Of the broker in its own process the controller knows that it is no more.
		name: "registration after an unclean stop", victim: 1,
		prepare: func(w *pieces) {
			w.silent = []int32{1}
			w.log.Depose(3)
			synctest.Wait()
			w.log.Lead()
			synctest.Wait()
		},
		ask: func(w *pieces) {
			w.c.RegisterBroker(registration(1, 'z'), soon())
			w.live()
		},
		done: func(w *pieces) bool { b := w.broker(1); return b.IncarnationID == protocol.UUID{'z'} && b.Fenced },
	},
	{
		name: "return of a broker that alone can lead", victim: protocol.NoNode,
		prepare: func(w *pieces) {
			w.silent = []int32{1, 2, 3}
			for range 12 {
				w.live()
			}
			if led, _ := with(w.machine.Image(), protocol.NoNode); led != 250 {
				w.t.Fatalf("%d partitions without a leader", led)
			}
		},
		ask: func(w *pieces) { w.silent = []int32{1, 2}; w.live() },
		// The last that was in sync is eligible; it may have been another one.
		done: func(w *pieces) bool {
			if w.broker(3).Fenced {
				return false
			}
			for _, p := range w.machine.Image().PartitionsOn(3) {
				if p.Leader == protocol.NoNode && slices.Contains(p.ELR, 3) {
					return false
				}
			}
			return true
		},
	},
}

// What is about many partitions is several batches, and whoever is asked in
// between is answered.
func TestOperationsComeInPieces(t *testing.T) {
	for _, of := range operations {
		t.Run(of.name, func(t *testing.T) {
			inPieces(t, func(w *pieces) {
				if of.prepare != nil {
					of.prepare(w)
				}
				w.machine.take()
				for i := 0; !of.done(w); i++ {
					if i > 60 {
						t.Fatal("it does not come to an end")
					}
					of.ask(w)
				}
				of.check(w)
				batches := w.machine.take()
				if len(batches) < 2 {
					t.Errorf("it was one batch: %v", batches)
				}
			})
		})
	}
}

func (of *operation) check(w *pieces) {
	w.t.Helper()
	img := w.machine.Image()
	if of.victim != protocol.NoNode {
		if led, inSync := with(img, of.victim); led+inSync > 0 {
			w.t.Errorf("broker %d leads %d partitions and is in %d ISRs", of.victim, led, inSync)
		}
		if without, _ := with(img, protocol.NoNode); without > 0 {
			w.t.Errorf("%d partitions have no leader", without)
		}
	}
	for b := range img.Brokers() {
		if led, _ := with(img, b.ID); b.Fenced && led > 0 {
			w.t.Errorf("broker %d is fenced and leads %d partitions", b.ID, led)
		}
	}
}

// An office ends after each of the batches in turn: the next one comes to the same
// end.
func TestNextOfficeFinishesOperations(t *testing.T) {
	for _, of := range operations {
		for committed := range 4 {
			t.Run(fmt.Sprintf("%s, %d batches", of.name, committed), func(t *testing.T) {
				inPieces(t, func(w *pieces) {
					if of.prepare != nil {
						of.prepare(w)
					}
					w.machine.take()
					w.log.Hold()
					w.untilHeld(&of)
					for range committed {
						w.log.Commit()
						synctest.Wait()
						if w.log.Pending() == nil {
							w.untilHeld(&of)
						}
					}
					w.log.Depose(3)
					synctest.Wait()
					w.log.Forget()
					w.log.Release()
					w.log.Lead()
					synctest.Wait()
					for i := 0; !of.done(w); i++ {
						if i > 60 {
							t.Fatal("it does not come to an end")
						}
						of.ask(w)
					}
					of.check(w)
				})
			})
		}
	}
}

// untilHeld asks until a batch waits for its commit.
func (w *pieces) untilHeld(of *operation) {
	for i := 0; w.log.Pending() == nil && !of.done(w); i++ {
		if i > 60 {
			w.t.Fatal("nothing is proposed")
		}
		of.ask(w)
	}
}

// What a request asks for is all or nothing, however much: an office that ends in the
// midst of it has changed nothing.
func TestLargeRequestsAreAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &pieces{world: newWorld(t, testConfig()), epochs: map[int32]protocol.BrokerEpoch{}}
		defer w.stop()
		for id := range int32(3) {
			w.epochs[id+1] = w.join(id+1, byte('a'+id))
		}
		const partitions = 12_000
		fill(t, w.c, crowd(partitions))
		move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		for topic := range w.machine.Image().Topics() {
			asked := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			asked.Topic = topic.Name
			for p := range topic.Partitions() {
				part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
				part.Partition, part.Replicas = p.ID, protocol.Int32s([]protocol.NodeID{p.Replicas[2], p.Replicas[1], p.Replicas[0]})
				asked.Partitions = append(asked.Partitions, part)
			}
			move.Topics = append(move.Topics, asked)
		}
		moved := func() (n int) {
			for topic := range w.machine.Image().Topics() {
				for p := range topic.Partitions() {
					if p.Replicas[0] != 1+protocol.NodeID(int(p.ID+10*number(topic))%3) {
						n++
					}
				}
			}
			return n
		}
		w.machine.take()
		w.log.Hold()
		lost := w.c.AlterPartitionReassignments(move, "", soon())
		synctest.Wait()
		w.log.Commit()
		synctest.Wait()
		w.log.Depose(3)
		synctest.Wait()
		if _, err := lost.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("error %v, want NOT_CONTROLLER", err)
		}
		w.log.Forget()
		w.log.Release()
		w.log.Lead()
		synctest.Wait()
		if n := moved(); n != 0 {
			t.Fatalf("%d partitions have moved", n)
		}
		if change, err := w.c.AlterPartitionReassignments(move, "", soon()).Wait(t.Context()); err != nil || change.Response.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%v", err)
		}
		if n := moved(); n != partitions {
			t.Errorf("%d partitions have moved", n)
		}
	})
}

// number is that of a topic of crowd.
func number(topic *metadata.Topic) (n int32) {
	_, _ = fmt.Sscanf(topic.Name, "crowd-%d", &n)
	return n
}
