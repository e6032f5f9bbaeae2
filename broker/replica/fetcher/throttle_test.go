package fetcher

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/quota"
)

// TestThrottle: a partition that has to catch up is not asked for while its rate is
// used up, the others are, and the leader holds that fetch until the partition may be
// asked for again; then it is.
func TestThrottle(t *testing.T) {
	throttled = quota.ReplicasOf([]string{"1:1"}, 1)
	defer func() { throttled = quota.Replicas{} }()
	run(t, 2, func(w *world) {
		rate := quota.NewRate(11, time.Second)
		rate.Set(1)
		w.pool.cfg.Throttle = rate
		w.fetch(t) // of both, in sync
		w.replay(t, &record.PartitionChange{
			TopicID: topicID, PartitionID: 1, Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged, ISR: []protocol.NodeID{2},
		})
		w.answers <- answer(9)
		if req := w.fetch(t); req.MaxWaitMillis != 500 {
			t.Fatalf("fetch for %d ms", req.MaxWaitMillis)
		}
		w.answers <- answer(9, func(p *kmsg.FetchResponseTopicPartition) { p.Partition, p.RecordBatches = 1, records(t, 0, 10) })
		req := w.fetch(t)
		if len(req.ForgottenTopics) != 1 || !slices.Equal(req.ForgottenTopics[0].Partitions, []int32{1}) || len(req.Topics) != 0 {
			t.Fatalf("fetch %+v", req)
		}
		w.wantEnd(t, 1, 10, 0)
		if wait := rate.Wait(); wait != 10*time.Second {
			t.Fatalf("the rate is used up for %v", wait)
		}
		time.Sleep(9800 * time.Millisecond)
		w.answers <- answer(9)
		if req := w.fetch(t); req.MaxWaitMillis > 201 {
			t.Fatalf("the leader is to hold it for %d ms", req.MaxWaitMillis)
		}
		time.Sleep(200 * time.Millisecond)
		w.answers <- answer(9)
		if req := w.fetch(t); !slices.Equal(partitions(req), []int32{1}) {
			t.Fatalf("fetch %+v", req)
		}
		w.answers <- answer(9)
		w.fetch(t)
		synctest.Wait()
	})
}

// TestThrottleAlone: with nothing else to fetch nobody is asked meanwhile.
func TestThrottleAlone(t *testing.T) {
	throttled = quota.ReplicasOf([]string{"*"}, 1)
	defer func() { throttled = quota.Replicas{} }()
	run(t, 1, func(w *world) {
		rate := quota.NewRate(11, time.Second)
		w.pool.cfg.Throttle = rate
		w.fetch(t)
		w.replay(t, &record.PartitionChange{
			TopicID: topicID, PartitionID: 0, Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged, ISR: []protocol.NodeID{2},
		})
		rate.Set(1)
		rate.Add(100)
		start := time.Now()
		w.answers <- answer(9)
		w.fetch(t)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the next fetch came after %v", took)
		}
	})
}
