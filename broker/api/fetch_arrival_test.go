package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
)

// followerFetch is a fetch of replica 2 for partition 0 of topics.
func followerFetch(topics ...string) *kmsg.FetchRequest {
	req := fetchRequest(15, topics[0], 0)
	req.ReplicaID, req.ReplicaState.ID = -1, 2
	req.MaxWaitMillis, req.MinBytes = 500, 1
	for _, name := range topics[1:] {
		req.Topics = append(req.Topics, fetchRequest(15, name, 0).Topics...)
	}
	return req
}

// took is how long a fetch was held.
func (w *dataWorld) took(req *kmsg.FetchRequest) time.Duration {
	w.t.Helper()
	begin := time.Now()
	resp := w.ask(req).(*kmsg.FetchResponse)
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				w.t.Errorf("error %v", protocol.Error(p.ErrorCode))
			}
		}
	}
	return time.Since(begin)
}

// A follower gets another partition of this leader: its long fetch ends, and it is
// held for short times only until it asks for that too.
func TestFetchEndsForAnotherPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("a", 1, 1, 1, 2)
		const ordinary = 500 * time.Millisecond
		if d := w.took(followerFetch("a")); d != ordinary {
			t.Fatalf("a fetch of all takes %v", d)
		}
		go func() {
			time.Sleep(100 * time.Millisecond)
			w.topic("b", 1, 1, 1, 2)
		}()
		if d := w.took(followerFetch("a")); d != 100*time.Millisecond {
			t.Errorf("it ended after %v, the other partition came after 100 ms", d)
		}
		// Its metadata is behind.
		for _, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
			if d := w.took(followerFetch("a")); d != want {
				t.Errorf("the next took %v, want %v", d, want)
			}
		}
		if d := w.took(followerFetch("a", "b")); d != ordinary {
			t.Errorf("a fetch of all takes %v", d)
		}
		if d := w.took(followerFetch("a")); d != ordinary {
			t.Errorf("a fetch takes %v when all have come", d)
		}
		// None is awaited that this broker leads no more.
		d := w.topic("d", 1, 1, 1, 2)
		w.lead(d, 2)
		if d := w.took(followerFetch("a", "b")); d != ordinary {
			t.Errorf("a fetch takes %v without the partition that another leads", d)
		}
		// One that never comes is given up.
		w.topic("c", 1, 1, 1, 2)
		var total time.Duration
		for range 7 {
			total += w.took(followerFetch("a", "b"))
		}
		if total != 635*time.Millisecond {
			t.Errorf("seven fetches took %v", total)
		}
		if d := w.took(followerFetch("a", "b")); d != ordinary {
			t.Errorf("then one takes %v", d)
		}
	})
}

// Consumers and others' replicas are not woken.
func TestFetchGoesOnForOthersPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("a", 1, 1, 1, 2)
		go func() {
			time.Sleep(100 * time.Millisecond)
			w.topic("b", 1, 1, 1, 3)
			w.topic("c", 1, 1, 1)
		}()
		if d := w.took(followerFetch("a")); d != 500*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// With many partitions a fetch lasts for a while even so.
func TestFetchOfManyLastsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("many", 1, 3000, 1, 2)
		req := followerFetch("many")
		req.Topics[0].Partitions = nil
		for i := range int32(3000) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.PartitionMaxBytes, p.LogStartOffset = i, 1<<20, 0
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		go func() {
			for i := range 50 {
				w.topic(string(rune('a'+i)), 1, 1, 1, 2)
				time.Sleep(time.Millisecond)
			}
		}()
		if d := w.took(req); d < 30*time.Millisecond || d > 35*time.Millisecond {
			t.Errorf("it took %v, want 10 µs a partition", d)
		}
		time.Sleep(time.Second)
	})
}
