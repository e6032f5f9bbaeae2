package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/klamm/klamm/controller/decide"
	"github.com/klamm/klamm/metadata/record"
)

// BenchmarkFence is a broker's end that holds a replica of every partition and
// leads a third of them.
func BenchmarkFence(b *testing.B) {
	for _, partitions := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			c, m := newBenchWorld(b)
			joinBench(b, c, m, 2)
			joinBench(b, c, m, 3)
			fill(b, c, crowd(partitions))
			b.Run("decide", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					decide.Fence(m.Image(), 2, "test", c.cfg.Env, nil)
				}
			})
			b.Run("all", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var leaving decide.Leaving
					p := newPending(nil, "fence", "", time.Time{}, func(o *office, _ *struct{}) (decision, error) {
						records, more := decide.Fence(o.pending, 2, "test", o.c.cfg.Env, &leaving)
						return decision{records: records, more: more}, nil
					})
					c.submit(p.op)
					if _, err := p.Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					var back []record.Record
					for t, p := range m.Image().PartitionsOn(2) {
						rec := record.NewPartitionChange(t.ID, p.ID)
						rec.ISR, rec.Leader = p.Replicas, p.Replicas[0]
						back = append(back, rec)
					}
					br, _ := m.Image().Broker(2)
					back = append(back, &record.BrokerRegistrationChange{BrokerID: 2, BrokerEpoch: br.Epoch, Fenced: -1})
					fill(b, c, back)
					b.StartTimer()
				}
			})
		})
	}
}
