//go:build integration

package limits

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
	"github.com/klamm/klamm/protocol/client"
)

// observe follows the metadata log as a broker does, until stop, and counts its
// fetches and the bytes that they bring.
func observe(addr string, id int32, stop <-chan struct{}, fetches, bytes *atomic.Int64) error {
	ctx, cancel := contextUntil(stop)
	defer cancel()
	conn, err := client.Dial(ctx, addr, client.Config{ClientID: fmt.Sprint("observer-", id)})
	if err != nil {
		return err
	}
	defer conn.Close()
	offset, highWatermark := int64(0), int64(-1)
	var epoch, last int32
	for ctx.Err() == nil {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaState.ID, req.MaxWaitMillis, req.MaxBytes = id, 500, 8<<20
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = protocol.MetadataTopicID
		p := kmsg.NewFetchRequestTopicPartition()
		p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch, p.HighWatermark = epoch, offset, last, highWatermark
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		answer, err := conn.Request(ctx, req)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		resp := answer.(*kmsg.FetchResponse)
		if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
			return fmt.Errorf("fetch at %d: %v", offset, protocol.Error(resp.ErrorCode))
		}
		got := resp.Topics[0].Partitions[0]
		switch code := protocol.Error(got.ErrorCode); code {
		case protocol.None:
		case protocol.ErrFencedLeaderEpoch, protocol.ErrUnknownLeaderEpoch, protocol.ErrNotLeaderForPartition:
			epoch = got.CurrentLeader.LeaderEpoch
			continue
		default:
			return fmt.Errorf("fetch at %d: %w", offset, code)
		}
		fetches.Add(1)
		bytes.Add(int64(len(got.RecordBatches)))
		highWatermark = got.HighWatermark
		for rest := got.RecordBatches; len(rest) > 0; {
			var b batch.Batch
			if b, rest, err = batch.Next(rest); err != nil {
				return err
			}
			offset, last = b.NextOffset(), b.LeaderEpoch()
		}
	}
	return nil
}

// One controller and 1, 10 and 50 observers of its log, idle and while topics are
// created: what it spends on each fetch must not grow with their number.
func TestObservers(t *testing.T) {
	q := startQuorum(t, 1)
	q.register(1)
	n := q.Controllers[0]
	topics := 0
	for _, count := range []int{0, 1, 10, 50} {
		stop := make(chan struct{})
		var fetches, bytes atomic.Int64
		var group sync.WaitGroup
		for i := range count {
			group.Go(func() {
				if err := observe(n.Controller, int32(1000+i), stop, &fetches, &bytes); err != nil {
					t.Errorf("observer %d: %v", i, err)
				}
			})
		}
		time.Sleep(time.Second)
		measure := func(what string, do func()) {
			cpu, before, size := n.Usage().CPU, fetches.Load(), bytes.Load()
			began := time.Now()
			do()
			spent, answered := n.Usage().CPU-cpu, fetches.Load()-before
			t.Logf("%2d observers, %-26s %4d ms of CPU in %4.1f s, %5d fetches, %4.1f MiB", count, what,
				spent.Milliseconds(), time.Since(began).Seconds(), answered, float64(bytes.Load()-size)/(1<<20))
		}
		measure("idle", func() { time.Sleep(5 * time.Second) })
		measure("100 topics of 10 created", func() {
			for range 100 {
				topics++
				req := oneTopic(fmt.Sprint("observed-", topics), 1)
				req.Topics[0].NumPartitions = 10
				q.create(req)
				time.Sleep(20 * time.Millisecond)
			}
		})
		close(stop)
		group.Wait()
	}
}
