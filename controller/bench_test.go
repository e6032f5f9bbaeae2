package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog/memlog"
)

// newBenchWorld is a controller in office with one broker, in real time, over a
// log that commits at once: what is measured is the controller and the replay.
func newBenchWorld(b *testing.B) (*Controller, *machine) {
	m := newMachine()
	log := memlog.New(memlog.Config{NodeID: 1, StateMachine: m, FirstEntry: FirstEntry(1, []protocol.NodeID{1}, nil)})
	cfg := testConfig()
	cfg.SessionTimeout = time.Hour
	c := New(cfg, log, m, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- log.Run(ctx) }()
	go func() { done <- c.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
	})
	req := registration(1, 'a')
	var epoch protocol.BrokerEpoch
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var err error
		if epoch, err = c.RegisterBroker(req, soon()).Wait(ctx); err == nil {
			break
		}
		if time.Now().After(deadline) {
			b.Fatal(err) // it does not take office
		}
	}
	if resp, err := c.Heartbeat(beat(1, epoch, m.Image().Offset()), soon()).Wait(ctx); err != nil || resp.IsFenced {
		b.Fatalf("heartbeat: %+v, %v", resp, err)
	}
	return c, m
}

// BenchmarkCreateTopics is the creation of topics of three partitions: one in a
// round, 64 clients at once, which rounds gather, and a thousand in one request.
func BenchmarkCreateTopics(b *testing.B) {
	wait := func(p *Pending[Change[*kmsg.CreateTopicsResponse]]) {
		b.Helper()
		change, err := p.Wait(b.Context())
		if err != nil || change.Response.Topics[0].ErrorCode != 0 {
			b.Fatalf("%+v, %v", change, err)
		}
	}
	b.Run("one", func(b *testing.B) {
		c, _ := newBenchWorld(b)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			wait(c.CreateTopics(creation(3, fmt.Sprint("topic-", n)), "", soon()))
		}
	})
	b.Run("64 at once", func(b *testing.B) {
		c, _ := newBenchWorld(b)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			var all []*Pending[Change[*kmsg.CreateTopicsResponse]]
			for range 64 {
				n++
				all = append(all, c.CreateTopics(creation(3, fmt.Sprint("topic-", n)), "", soon()))
			}
			for _, p := range all {
				wait(p)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/topic")
	})
	b.Run("1000 in a request", func(b *testing.B) {
		c, _ := newBenchWorld(b)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			var names []string
			for i := range 1000 {
				names = append(names, fmt.Sprintf("topic-%d-%d", n, i))
			}
			wait(c.CreateTopics(creation(3, names...), "", soon()))
		}
	})
}

// BenchmarkHeartbeat is what every broker asks every two seconds.
func BenchmarkHeartbeat(b *testing.B) {
	c, m := newBenchWorld(b)
	img := m.Image()
	broker, _ := img.Broker(1)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := c.Heartbeat(beat(1, broker.Epoch, img.Offset()), soon()).Wait(b.Context())
		if err != nil || resp.ErrorCode != 0 {
			b.Fatalf("%+v, %v", resp, err)
		}
	}
}
