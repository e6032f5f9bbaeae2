package controller

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

func TestSessionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		one, two := w.join(1, 'a'), w.join(2, 'b')
		if _, err := w.create(4, "a").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.machine.take()
		for range 3 {
			time.Sleep(3 * time.Second)
			if _, err := w.c.Heartbeat(beat(1, one, 0), soon()).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		w.check("PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE")
		if b, _ := w.machine.Image().Broker(2); !b.Fenced {
			t.Error("a silent broker is not fenced")
		}
		if seen, silent := w.c.FencedByEvidence(), w.c.FencedByTimeout(); seen != 0 || silent != 1 {
			t.Errorf("%d fenced by evidence and %d by timeout, want 0 and 1", seen, silent)
		}
		// It was only slow: its next heartbeat brings it back.
		resp, err := w.c.Heartbeat(beat(2, two, w.machine.Image().Offset()), soon()).Wait(t.Context())
		if err != nil || resp.IsFenced {
			t.Errorf("%+v, %v", resp, err)
		}
		// Both at once: the second decision sees the first one's result.
		w.machine.take()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		w.check("PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE PARTITION_CHANGE×2 BROKER_REGISTRATION_CHANGE")
	})
}

// A commit that takes longer than a session does not fence the brokers whose
// heartbeats wait behind it.
func TestSlowCommitFencesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		epoch := w.join(2, 'a')
		w.machine.take()
		w.log.Hold()
		w.create(1, "a")
		var last *Pending[*kmsg.BrokerHeartbeatResponse]
		for range 6 {
			time.Sleep(3 * time.Second)
			last = w.c.Heartbeat(beat(2, epoch, 0), time.Now().Add(4*time.Second))
		}
		w.log.Release()
		if resp, err := last.Wait(t.Context()); err != nil || resp.IsFenced {
			t.Errorf("%+v, %v", resp, err)
		}
		synctest.Wait()
		w.check("TOPIC PARTITION")
	})
}

// A new office grants each broker a full session.
func TestTakeoverGrantsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(2, 'a')
		time.Sleep(8 * time.Second)
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if b, _ := w.machine.Image().Broker(2); b.Fenced {
			t.Error("fenced before its session was over")
		}
		// Another process with its id has to wait for the end of the session.
		w.refuse(2, 'z')
		time.Sleep(time.Second)
		synctest.Wait()
		if b, _ := w.machine.Image().Broker(2); !b.Fenced {
			t.Error("not fenced after its session was over")
		}
		if _, err := w.c.RegisterBroker(registration(2, 'z'), soon()).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// refuse expects that another process may not have a broker's id.
func (w *world) refuse(id int32, incarnation byte) {
	w.t.Helper()
	_, err := w.c.RegisterBroker(registration(id, incarnation), soon()).Wait(w.t.Context())
	if !errors.Is(err, protocol.ErrDuplicateBrokerRegistration) {
		w.t.Errorf("error %v, want DUPLICATE_BROKER_REGISTRATION", err)
	}
}

// A combined node comes back after kill -9: its own broker need not wait for
// the session of the one that died with the process.
func TestOwnBrokerReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		w.join(1, 'b')
		// Alive in this office: now somebody else may not.
		w.refuse(1, 'c')
		// Nor where a heartbeat showed it, of a broker that outlived an election.
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		b, _ := w.machine.Image().Broker(1)
		if _, err := w.c.Heartbeat(beat(1, b.Epoch, 0), soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.refuse(1, 'c')
	})
}

func TestControlledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		epoch := w.join(1, 'a')
		if _, err := w.create(1, "a").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.machine.take()
		stop := func(offset int64) *kmsg.BrokerHeartbeatResponse {
			req := beat(1, epoch, offset)
			req.WantShutdown = true
			resp, err := w.c.Heartbeat(req, soon()).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		before := w.machine.Image().Offset()
		if stop(before).ShouldShutdown || stop(before+1).ShouldShutdown {
			t.Error("may stop before it has replayed the hand-over")
		}
		// A registration of the same life changes nothing of it.
		if _, err := w.c.RegisterBroker(registration(1, 'a'), soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if stop(before + 1).ShouldShutdown {
			t.Error("may stop before it has replayed the hand-over")
		}
		// The next controller asks for no more than that.
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		if stop(before + 1).ShouldShutdown {
			t.Error("may stop before it has replayed the hand-over")
		}
		if !stop(w.machine.Image().Offset()).ShouldShutdown {
			t.Error("may not stop")
		}
		w.check("BROKER_REGISTRATION_CHANGE PARTITION_CHANGE", "REGISTER_BROKER", "LeaderChange", "BROKER_REGISTRATION_CHANGE")
	})
}

// A broker that has what was there when it registered is unfenced, however far the
// log has gone on (B087 of package integration/faults).
func TestUnfencedOnABusyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		epoch, err := w.c.RegisterBroker(registration(2, 'b'), soon()).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(epoch) - 1; at <= int64(epoch); at++ {
			if _, err := w.create(1, fmt.Sprint("t", at)).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			resp, err := w.c.Heartbeat(beat(2, epoch, at), soon()).Wait(t.Context())
			if err != nil || resp.IsFenced != (at < int64(epoch)) || resp.IsCaughtUp == resp.IsFenced {
				t.Errorf("at offset %d of %d, registered at %d: %+v, %v", at, w.machine.Image().Offset(), epoch, resp, err)
			}
		}
	})
}

// What others do while a broker shuts down, and its own heartbeats, do not raise what
// it must have replayed (B203 of package integration/faults).
func TestShutdownIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		one := w.join(1, 'a')
		if _, err := w.create(1, "a").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.join(2, 'b')
		before := w.machine.Image().Offset()
		stop := func(offset int64) bool {
			req := beat(1, one, offset)
			req.WantShutdown = true
			resp, err := w.c.Heartbeat(req, soon()).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return resp.ShouldShutdown
		}
		for i := range 3 {
			if stop(before) {
				t.Error("may stop before it has replayed the hand-over")
			}
			if i == 0 {
				w.machine.take()
			}
			if _, err := w.create(1, fmt.Sprint("other", i)).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.check("TOPIC PARTITION", "TOPIC PARTITION", "TOPIC PARTITION")
		if handedOver := w.machine.Image().Offset() - 6; !stop(handedOver) {
			t.Errorf("may not stop at offset %d, where it had handed over", handedOver)
		}
	})
}

// Leaderships go back to preferred replicas at the interval, and not before.
func TestRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.RebalanceInterval = 5 * time.Minute
		cfg.SessionTimeout = time.Hour
		w := newWorld(t, cfg)
		defer w.stop()
		w.join(1, 'a')
		two := w.join(2, 'b')
		req := creation(4, "t")
		req.Topics[0].ReplicationFactor = 2
		if _, err := w.c.CreateTopics(req, "", soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		away := beat(2, two, w.machine.Image().Offset())
		away.WantFence = true
		if _, err := w.c.Heartbeat(away, soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.c.Heartbeat(beat(2, two, w.machine.Image().Offset()), soon()).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p := range mustTopic(t, w.machine.Image(), "t").Partitions() {
			alter := kmsg.NewPtrAlterPartitionRequest()
			alter.Version, alter.BrokerID, alter.BrokerEpoch = 3, int32(p.Leader), int64(mustBroker(t, w, p.Leader).Epoch)
			part := kmsg.NewAlterPartitionRequestTopicPartition()
			part.Partition, part.LeaderEpoch, part.PartitionEpoch = p.ID, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
			for _, id := range p.Replicas {
				part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: int32(id), BrokerEpoch: int64(mustBroker(t, w, id).Epoch)})
			}
			topic := kmsg.NewAlterPartitionRequestTopic()
			topic.TopicID = mustTopic(t, w.machine.Image(), "t").ID
			topic.Partitions = append(topic.Partitions, part)
			alter.Topics = append(alter.Topics, topic)
			if _, err := w.c.AlterPartition(alter, soon()).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		moved := func() (n int) {
			for p := range mustTopic(t, w.machine.Image(), "t").Partitions() {
				if p.Leader != p.Replicas[0] {
					n++
				}
			}
			return n
		}
		if moved() == 0 {
			t.Fatal("nothing has moved")
		}
		w.machine.take()
		time.Sleep(cfg.RebalanceInterval - time.Second)
		synctest.Wait()
		w.check()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := moved(); n != 0 {
			t.Errorf("%d partitions are not led by their preferred replicas", n)
		}
		w.machine.take()
		time.Sleep(2 * cfg.RebalanceInterval)
		synctest.Wait()
		w.check() // there is nothing to give back
	})
}

func mustBroker(t *testing.T, w *world, id protocol.NodeID) *metadata.Broker {
	t.Helper()
	b, ok := w.machine.Image().Broker(id)
	if !ok {
		t.Fatalf("no broker %d", id)
	}
	return b
}
