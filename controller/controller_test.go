package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

const bootstrapBatch = "BEGIN_TRANSACTION FEATURE_LEVEL×6 CONFIG END_TRANSACTION"

// A new cluster: LeaderChange, then the bootstrap records as one transaction,
// with what the office has to say itself behind them.
func TestFirstStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.Registration = kmsg.NewPtrControllerRegistrationRequest()
		cfg.Registration.ControllerID, cfg.Registration.IncarnationID = 1, [16]byte{'c'}
		w := newWorld(t, cfg)
		defer w.stop()
		w.check("LeaderChange", bootstrapBatch, "REGISTER_CONTROLLER")
		if got := w.machine.Image().Offset(); got != 10 {
			t.Errorf("offset %d, want 10", got)
		}
		if epoch := w.join(1, 'a'); epoch != 11 {
			t.Errorf("broker epoch %d, want the offset of its registration, 11", epoch)
		}
		w.check("REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE")

		// The same node leads again: nothing of it is written twice.
		w.log.Depose(2)
		w.log.Lead()
		synctest.Wait()
		w.check("LeaderChange")
	})
}

// What arrives while a batch is in flight is decided together, each op on what
// the ones before it decided, and answered after the commit.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.take()
		w.log.Hold()
		first := w.create(1, "a")
		synctest.Wait()
		second := w.create(2, "b")
		third := w.create(1, "b", "c")
		synctest.Wait()
		for _, p := range []*Pending[Change[*kmsg.CreateTopicsResponse]]{first, second, third} {
			if len(p.op.done) != 0 {
				t.Fatal("answered before the commit")
			}
		}
		w.log.Commit()
		synctest.Wait()
		if len(first.op.done) != 1 || len(second.op.done) != 0 {
			t.Fatal("the commit of the first batch answers the first op alone")
		}
		w.log.Release()
		synctest.Wait()
		w.check("TOPIC PARTITION", "TOPIC PARTITION×2 TOPIC PARTITION")
		a, err := first.Wait(t.Context())
		if err != nil || a.Response.Topics[0].ErrorCode != 0 || a.Offset != w.machine.next-6 {
			t.Errorf("first: %+v, %v", a, err)
		}
		b, err := third.Wait(t.Context())
		if err != nil || b.Response.Topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) || b.Response.Topics[1].ErrorCode != 0 || b.Offset != w.machine.next-1 {
			t.Errorf("third: %+v, %v", b, err)
		}
	})
}

// An answer without records waits for the records that it saw: they may not get
// committed.
func TestRefusalWaitsForWhatItSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		blocker := w.create(1, "x")
		synctest.Wait()
		made, refused := w.create(1, "a"), w.create(1, "a")
		w.log.Commit()
		synctest.Wait()
		if len(blocker.op.done) != 1 || len(made.op.done)+len(refused.op.done) != 0 {
			t.Fatal("answered before the commit")
		}
		w.log.Depose(2)
		synctest.Wait()
		for _, p := range []*Pending[Change[*kmsg.CreateTopicsResponse]]{made, refused} {
			if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
				t.Errorf("error %v, want NOT_CONTROLLER", err)
			}
		}
		w.log.Release()
		// Where nothing is under way, a refusal is answered at once.
		w.log.Lead()
		synctest.Wait()
		w.log.Hold()
		resp, err := w.create(0, "zero").Wait(t.Context())
		if err != nil || resp.Response.Topics[0].ErrorCode != int16(protocol.ErrInvalidPartitions) {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// Leadership is lost with a batch in flight and ops queued: all are told, and
// the next office starts from what was committed in the meantime.
func TestLostLeadership(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, testConfig())
				defer w.stop()
				w.join(1, 'a')
				w.log.Hold()
				inFlight := w.create(1, "a")
				synctest.Wait()
				queued := w.create(1, "b")
				w.log.Depose(2)
				synctest.Wait()
				late := w.create(1, "c")
				for _, p := range []*Pending[Change[*kmsg.CreateTopicsResponse]]{inFlight, queued, late} {
					if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
						t.Errorf("error %v, want NOT_CONTROLLER", err)
					}
				}
				if committed {
					w.log.Release()
				} else {
					w.log.Forget()
					w.log.Release()
				}
				w.log.Lead()
				synctest.Wait()
				resp, err := w.create(1, "a").Wait(t.Context())
				if err != nil || (resp.Response.Topics[0].ErrorCode != 0) != committed {
					t.Errorf("create a: %+v, %v", resp.Response, err)
				}
				if resp, err = w.create(1, "b").Wait(t.Context()); err != nil || resp.Response.Topics[0].ErrorCode != 0 {
					t.Errorf("create b: %+v, %v", resp.Response, err)
				}
			})
		})
	}
}

// Nobody knows what became of a batch, and leadership stays: the office begins
// anew behind it.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.take()
		w.log.Hold()
		lost := w.create(1, "a")
		synctest.Wait()
		w.log.Lose()
		if _, err := lost.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("error %v, want NOT_CONTROLLER", err)
		}
		w.log.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		resp, err := w.create(1, "a").Wait(t.Context())
		if err != nil || resp.Response.Topics[0].ErrorCode != int16(protocol.ErrTopicAlreadyExists) {
			t.Errorf("%+v, %v", resp.Response, err)
		}
		w.check("TOPIC PARTITION", "NO_OP")
	})
}

// A decision of an earlier epoch that gets committed late is skipped by all
// (invariant 11). The one of the machine here is tested with it.
func TestStaleBatchIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.log.Depose(2)
		w.log.Append(record.EncodeBatch([]record.Record{&record.Topic{Name: "old", TopicID: protocol.UUID{9}}}, feature.Latest, 0, 1, 0))
		w.log.Lead()
		synctest.Wait()
		if _, ok := w.machine.Image().Topic("old"); ok {
			t.Error("a batch with an old stamp was applied")
		}
		w.join(1, 'a')
	})
}

// What must be atomic and does not fit a batch is a transaction; what stands
// before and behind it is outside.
func TestLargeCreationIsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.take()
		w.log.Hold()
		w.create(1, "x")
		synctest.Wait()
		w.create(1, "y")
		names := make([]string, 4000)
		for i := range names {
			names[i] = fmt.Sprint("t", i)
		}
		large := w.create(2, names...)
		after := w.create(1, "z")
		w.log.Release()
		resp, err := large.Wait(t.Context())
		if err != nil || len(resp.Response.Topics) != 4000 || resp.Response.Topics[3999].ErrorCode != 0 {
			t.Fatalf("%d topics, %v", len(resp.Response.Topics), err)
		}
		if _, err := after.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := w.machine.take()
		if len(got) != 5 || got[1] != "TOPIC PARTITION" || !strings.HasPrefix(got[2], "BEGIN_TRANSACTION TOPIC ") ||
			!strings.HasSuffix(got[len(got)-2], " END_TRANSACTION") || got[len(got)-1] != "TOPIC PARTITION" {
			for _, b := range got {
				t.Logf("%.100s … %s", b, b[max(0, len(b)-40):])
			}
			t.Fatal("the creation is not a transaction by itself")
		}
		if n := w.machine.Image().NumTopics(); n != 4003 {
			t.Errorf("%d topics, want 4003", n)
		}
	})
}

// A transaction whose controller lost office half way is aborted by the next.
func TestUnfinishedTransactionIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.machine.take()
		w.log.Hold()
		names := make([]string, 4000)
		for i := range names {
			names[i] = fmt.Sprint("t", i)
		}
		large := w.create(2, names...)
		synctest.Wait()
		w.log.Commit() // the first batch
		synctest.Wait()
		w.log.Depose(2)
		synctest.Wait()
		if _, err := large.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("error %v, want NOT_CONTROLLER", err)
		}
		w.log.Forget() // the second
		w.log.Release()
		w.log.Lead()
		synctest.Wait()
		got := w.machine.take()
		if got[len(got)-1] != "ABORT_TRANSACTION" || w.machine.Image().NumTopics() != 0 {
			t.Errorf("last batch %.60s, %d topics", got[len(got)-1], w.machine.Image().NumTopics())
		}
		if _, err := w.create(1, "t1").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A record that no batch can hold is its sender's error, not the end of office.
func TestOversizedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		req := creation(1, "a")
		value := strings.Repeat("0:1,", 300_000) + "0:1"
		req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "leader.replication.throttled.replicas", Value: &value}}
		if _, err := w.c.CreateTopics(req, "", soon()).Wait(t.Context()); protocol.CodeOf(err) != protocol.ErrPolicyViolation {
			t.Errorf("error %v, want POLICY_VIOLATION", err)
		}
		if _, err := w.create(1, "a").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestNoOps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.MaxIdle = 500 * time.Millisecond
		w := newWorld(t, cfg)
		defer w.stop()
		w.machine.take()
		time.Sleep(1600 * time.Millisecond)
		synctest.Wait()
		w.check("NO_OP", "NO_OP", "NO_OP")
		// What is written anyway makes the next one later.
		time.Sleep(300 * time.Millisecond)
		w.join(1, 'a')
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		w.check("REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE")
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		inFlight := w.c.CreateTopics(creation(1, "a"), "", time.Now().Add(time.Second))
		synctest.Wait()
		queued := w.c.CreateTopics(creation(1, "b"), "", time.Now().Add(time.Second))
		if _, err := inFlight.Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
			t.Errorf("in flight: %v", err)
		}
		w.log.Release()
		synctest.Wait()
		if _, err := queued.Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
			t.Errorf("queued: %v", err)
		}
		img := w.machine.Image()
		_, a := img.Topic("a")
		_, b := img.Topic("b")
		if !a || b {
			t.Errorf("topic a %t, want true; topic b %t, want false: it was too late for a decision", a, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.create(1, "c").Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		w.create(1, "a")
		synctest.Wait()
		for range maxQueued {
			w.c.Heartbeat(beat(9, 9, 0), soon())
		}
		start := time.Now()
		if _, err := w.create(1, "b").Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) || time.Since(start) != 0 {
			t.Errorf("error %v after %v, want REQUEST_TIMED_OUT at once", err, time.Since(start))
		}
		w.log.Release()
		synctest.Wait()
		if _, err := w.create(1, "b").Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueIsBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		large := func(bytes int) *kmsg.CreateTopicsRequest {
			req := creation(1, "large")
			value := strings.Repeat("x", bytes)
			req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: &value}}
			req.ValidateOnly = true
			return req
		}
		for range 2 { // what has left the queue counts no more
			w.log.Hold()
			w.create(0, "refused")
			w.create(1, fmt.Sprint("a-", w.machine.next))
			synctest.Wait()
			for range maxQueuedBytes / (8 << 20) {
				w.c.CreateTopics(large(8<<20-100), "", soon())
			}
			if _, err := w.c.CreateTopics(large(1<<20), "", soon()).Wait(t.Context()); !errors.Is(err, protocol.ErrRequestTimedOut) {
				t.Errorf("error %v, want REQUEST_TIMED_OUT at once", err)
			}
			small := w.create(1, fmt.Sprint("b-", w.machine.next))
			w.log.Release()
			if _, err := small.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		// One that is too large for any queue is decided.
		if _, err := w.c.CreateTopics(large(maxQueuedBytes+1), "", soon()).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Every request that can be large counts in the queue.
func TestRequestsAreWeighed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		defer w.stop()
		w.join(1, 'a')
		w.log.Hold()
		w.create(1, "in-flight")
		synctest.Wait()
		large := strings.Repeat("x", 1<<20)
		update := kmsg.NewPtrUpdateFeaturesRequest()
		update.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: large}}
		assign := kmsg.NewPtrAssignReplicasToDirsRequest()
		assign.Directories = []kmsg.AssignReplicasToDirsRequestDirectory{{
			Topics: []kmsg.AssignReplicasToDirsRequestDirectoryTopic{{Partitions: make([]kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition, 1<<20)}},
		}}
		broker := kmsg.NewPtrBrokerRegistrationRequest()
		broker.ClusterID = large
		controller := kmsg.NewPtrControllerRegistrationRequest()
		controller.Listeners = []kmsg.ControllerRegistrationRequestListener{{Name: large}}
		alter := kmsg.NewPtrAlterPartitionRequest()
		alter.Topics = []kmsg.AlterPartitionRequestTopic{{Partitions: make([]kmsg.AlterPartitionRequestTopicPartition, 1<<20)}}
		elect := kmsg.NewPtrElectLeadersRequest()
		elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: large}}
		for name, submit := range map[string]func(){
			"UpdateFeatures":         func() { w.c.UpdateFeatures(update, "", soon()) },
			"AssignReplicasToDirs":   func() { w.c.AssignReplicasToDirs(assign, soon()) },
			"BrokerRegistration":     func() { w.c.RegisterBroker(broker, soon()) },
			"ControllerRegistration": func() { w.c.RegisterController(controller, soon()) },
			"AlterPartition":         func() { w.c.AlterPartition(alter, soon()) },
			"ElectLeaders":           func() { w.c.ElectLeaders(elect, "", soon()) },
			"DeleteTopics":           func() { w.c.DeleteTopics(&kmsg.DeleteTopicsRequest{TopicNames: []string{large}}, "", soon()) },
		} {
			before := w.c.bytes
			if submit(); w.c.bytes-before < 1<<20 {
				t.Errorf("%s counts for %d bytes", name, w.c.bytes-before)
			}
		}
	})
}

func TestStopAnswersEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testConfig())
		w.join(1, 'a')
		w.log.Hold()
		inFlight := w.create(1, "a")
		synctest.Wait()
		queued := w.create(1, "b")
		w.stop()
		late := w.create(1, "c")
		for _, p := range []*Pending[Change[*kmsg.CreateTopicsResponse]]{inFlight, queued, late} {
			if _, err := p.Wait(t.Context()); !errors.Is(err, protocol.ErrNotController) {
				t.Errorf("error %v, want NOT_CONTROLLER", err)
			}
		}
	})
}
