package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/quota"
)

// throttledWorld has topics that broker 2 has to catch up with, of which "moving" is
// held to a rate.
func throttledWorld(t *testing.T, bytesPerSecond int64) *dataWorld {
	w := newDataWorld(t)
	rate := quota.NewRate(11, time.Second)
	rate.Set(bytesPerSecond)
	w.fetch = NewFetch(FetchConfig{Throttle: rate}, w, w.manager, zerolog.Nop())
	config := worldConfig()
	config.LeaderThrottled = quota.ReplicasOf([]string{"0:1"}, 1)
	w.config["moving"] = config
	for _, name := range []string{"moving", "other"} {
		w.topic(name, 1, 1, 1, 2)
		w.apply(&record.PartitionChange{
			TopicID: worldTopicID(name, 1), Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged,
			ISR: []protocol.NodeID{1},
		})
	}
	return w
}

// fetched is how many bytes of a topic a fetch brings, and how long it was held.
func (w *dataWorld) fetched(req *kmsg.FetchRequest, topic string) (size int, took time.Duration) {
	w.t.Helper()
	begin := time.Now()
	resp := w.ask(req).(*kmsg.FetchResponse)
	for _, got := range resp.Topics {
		if got.TopicID == worldTopicID(topic, 1) {
			size += len(got.Partitions[0].RecordBatches)
		}
	}
	return size, time.Since(begin)
}

// A follower that moves is held to its rate: its fetch ends when the rate has some
// left, or with nothing, and then it comes again. Others' records and consumers go on
// (B185 of package integration/faults).
func TestFetchThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := throttledWorld(t, 100)
		w.mustProduce("moving", 50)
		follower := func() *kmsg.FetchRequest { return followerFetch("moving", "other") }
		if size, took := w.fetched(follower(), "moving"); size < 500 || took != 0 {
			t.Fatalf("the first fetch brings %d bytes after %v", size, took)
		}

		// Its fetch is held as if there was nothing, and brings what there is elsewhere.
		if size, took := w.fetched(follower(), "moving"); size != 0 || took != 500*time.Millisecond {
			t.Errorf("held, a fetch brings %d bytes after %v", size, took)
		}
		go func() {
			time.Sleep(100 * time.Millisecond)
			w.mustProduce("other", 1)
		}()
		if size, took := w.fetched(follower(), "other"); size == 0 || took != 100*time.Millisecond {
			t.Errorf("it brings %d bytes of another topic after %v", size, took)
		}
		consumer := fetchRequest(15, "moving", 0)
		consumer.MaxWaitMillis, consumer.ReplicaState.ID = 500, -1
		if size, took := w.fetched(consumer, "moving"); size == 0 || took != 0 {
			t.Errorf("a consumer gets %d bytes after %v", size, took)
		}

		// When the rate has some left the fetch ends at once.
		time.Sleep(w.fetch.cfg.Throttle.Wait() - 100*time.Millisecond)
		if size, took := w.fetched(followerFetch("moving"), "moving"); size == 0 || (took-100*time.Millisecond).Abs() > time.Millisecond {
			t.Errorf("then it brings %d bytes after %v", size, took)
		}
	})
}

// Who is in sync is not held, and does not use up the rate.
func TestFetchInSyncNotThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := throttledWorld(t, 1)
		w.mustProduce("moving", 50)
		w.apply(&record.PartitionChange{
			TopicID: worldTopicID("moving", 1), Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged,
			ISR: []protocol.NodeID{1, 2},
		})
		for range 3 {
			if size, took := w.fetched(followerFetch("moving"), "moving"); size == 0 || took != 0 {
				t.Errorf("a fetch brings %d bytes after %v", size, took)
			}
		}
		if wait := w.fetch.cfg.Throttle.Wait(); wait != 0 {
			t.Errorf("the rate is used up for %v", wait)
		}
	})
}
