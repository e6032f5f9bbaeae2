//go:build integration

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// A leader dies, and comes back.
func TestLeaderKilled(t *testing.T) {
	w := start(t)
	w.Create("t", 3)
	w.AwaitISR("t", 1, 2, 3)
	acked := numbered("before", 30)
	w.Produce("t", acked...)
	for range 3 {
		victim := w.Leader("t")
		w.Node(victim).Kill()
		during := numbered("without-"+string(rune('0'+victim)), 30)
		w.Produce("t", during...)
		acked = append(acked, during...)
		w.AwaitISR("t", w.Others(victim)...)
		w.Node(victim).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	w.MustHave("t", acked)
	w.SameLogs("t")
}

// A follower stands still for longer than replica.lag.time.max.ms, and goes on.
// Meanwhile a topic is created in less time than its replicas take (B105), and the
// leader's largest record becomes larger than max.message.bytes, which followers do
// not ask for (B045).
func TestFollowerStopped(t *testing.T) {
	w := start(t, "replica.lag.time.max.ms=2000", "broker.session.timeout.ms=60000")
	w.Create("t", 1)
	w.AwaitISR("t", 1, 2, 3)
	leader, controller := w.Leader("t"), w.Controller()
	follower := slices.DeleteFunc(w.Others(leader), func(id int32) bool { return id == controller })[0]
	acked := numbered("before", 10)
	w.Produce("t", acked...)
	w.Node(follower).Signal(syscall.SIGSTOP)
	during := numbered("during", 10)
	large := make([]byte, 600_000)
	_, _ = rand.Read(large) // compressed it would not be large
	during = append(during, string(large))
	w.Produce("t", during...)
	if code := w.setConfig(w.Client.Broker(int(leader)), kmsg.ConfigResourceTypeTopic, "t", "max.message.bytes", "100000"); code != protocol.None {
		t.Fatal(code)
	}
	if code := w.createWithin(leader, "soon", 100*time.Millisecond); code != protocol.None && code != protocol.ErrRequestTimedOut {
		t.Errorf("a creation while a replica stands still is answered with %v", code)
	}
	w.Await("the topic to exist", func() bool {
		return w.createWithin(leader, "soon", 10*time.Second) == protocol.ErrTopicAlreadyExists
	})
	w.AwaitISR("t", w.Others(follower)...)
	w.Node(follower).Signal(syscall.SIGCONT)
	w.AwaitISR("t", 1, 2, 3)
	w.AwaitISR("soon", 1, 2, 3)
	if err := w.Client.ProduceSync(w.Within(), &kgo.Record{Topic: "t", Value: large}).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record above max.message.bytes: %v", err)
	}
	w.MustHave("t", append(acked, during...))
	w.SameLogs("t")
}

// createWithin creates a topic of three replicas at a broker, in so much time.
func (w *world) createWithin(id int32, topic string, limit time.Duration) protocol.Error {
	w.T.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(limit.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 3
	req.Topics = append(req.Topics, t)
	resp, err := w.Client.Broker(int(id)).Request(w.Within(), req)
	if err != nil {
		w.T.Fatal(err)
	}
	return protocol.Error(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// setConfig sets one config, at a broker or a controller.
func (w *world) setConfig(at *kgo.Broker, kind kmsg.ConfigResourceType, resource, name, value string) protocol.Error {
	w.T.Helper()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, &value
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kind, resource, append(r.Configs, config)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := at.Request(w.Within(), req)
	if err != nil {
		w.T.Fatal(err)
	}
	return protocol.Error(resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}

// A leader is stopped in order, under load: nothing is taken once another leads, no
// record is lost or there twice (B204). After its return all brokers name the same
// leaders and epochs (B207).
func TestLeaderStopped(t *testing.T) {
	w := start(t)
	w.Create("t", 30)
	w.AwaitISR("t", 1, 2, 3)
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	var acked []string
	var count atomic.Int64 // of them
	var gap time.Duration
	// By default a client looks for another leader after up to five seconds.
	client := w.NewClient(kgo.MetadataMinAge(100 * time.Millisecond))
	writing.Go(func() {
		for last := time.Now(); ctx.Err() == nil; {
			value := fmt.Sprintf("%06d", len(acked))
			if err := client.ProduceSync(w.Within(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
				t.Errorf("record %s: %v", value, err)
				return
			}
			acked = append(acked, value)
			count.Add(1)
			gap, last = max(gap, time.Since(last)), time.Now()
		}
	})
	for _, id := range []int32{w.Controller(), w.Controller()%3 + 1} {
		before := count.Load()
		w.Await("more records", func() bool { return count.Load() > before+100 })
		began := time.Now()
		w.Node(id).Stop()
		t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
		w.AwaitISR("t", w.Others(id)...)
		w.Node(id).Restart()
		w.AwaitISR("t", 1, 2, 3)
	}
	stop()
	writing.Wait()
	t.Logf("%d records, at most %v between two", len(acked), gap.Round(time.Millisecond))
	w.Await("all brokers to name the same leaders", func() bool {
		all := make(map[string]bool)
		for _, id := range []int32{1, 2, 3} {
			resp, err := w.Client.Broker(int(id)).Request(w.Within(), harness.MetadataRequest("t"))
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%+v", resp.(*kmsg.MetadataResponse).Topics[0].Partitions)] = true
		}
		return len(all) == 1
	})
	slices.Sort(acked)
	there := w.Count("t")
	if got := w.Consume("t", len(acked)); there != int64(len(acked)) || !slices.Equal(got, acked) {
		t.Errorf("%d records are there, %d were acknowledged", there, len(acked))
	}
	w.SameLogs("t")
}

// The power fails, as far as a process can tell.
func TestAllKilledAtOnce(t *testing.T) {
	w := start(t, "broker.session.timeout.ms=3000")
	w.Create("t", 6)
	w.AwaitISR("t", 1, 2, 3)
	acked := numbered("first", 60)
	w.Produce("t", acked...)
	for range 2 {
		for _, n := range w.Nodes {
			n.Signal(syscall.SIGKILL)
		}
		for _, n := range w.Nodes {
			n.Kill()
		}
		began := time.Now()
		w.Restart()
		w.AwaitISR("t", 1, 2, 3)
		t.Logf("all in sync again after %v", time.Since(began))
		w.MustHave("t", acked)
		w.Produce("t", "more-"+began.String())
		acked = append(acked, "more-"+began.String())
	}
	w.SameLogs("t")
}
