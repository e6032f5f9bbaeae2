package replica

import (
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/quota"
)

// exhausted is a rate that lets nothing go now.
func exhausted() *quota.Rate {
	r := quota.NewRate(11, time.Second)
	r.Set(1)
	r.Add(1 << 20)
	return r
}

// TestHeld: records are kept back from who is not in sync, where the topic's throttle
// is for the leader's replica and its rate is used up. Nobody else waits for them.
func TestHeld(t *testing.T) {
	unlimited := quota.NewRate(11, time.Second)
	for _, test := range []struct {
		name            string
		replica         protocol.NodeID // not in sync: 3
		config          []string
		rate            *quota.Rate
		throttled, held bool
	}{
		{"out of sync", 3, []string{"0:1"}, exhausted(), true, true},
		{"all of the topic", 3, []string{"*"}, exhausted(), true, true},
		{"a rate that has some left", 3, []string{"0:1"}, unlimited, true, false},
		{"in sync", 2, []string{"0:1"}, exhausted(), false, false},
		{"a consumer", protocol.NoNode, []string{"0:1"}, exhausted(), false, false},
		{"the follower's entry", 3, []string{"0:3"}, exhausted(), false, false},
		{"another partition", 3, []string{"1:1"}, exhausted(), false, false},
		{"no throttle", 3, []string{"0:1"}, nil, false, false},
	} {
		log := &fakeLog{}
		p := leading(log, TopicConfig{LeaderThrottled: quota.ReplicasOf(test.config, 1)}, 1, 2, 3)
		after := registration(1, 0, 1, 2, 3)
		after.PartitionEpoch, after.ISR = 1, []protocol.NodeID{1, 2}
		p.become(after, actionUpdate, log, 0)
		mustAppend(t, p, 5)
		if _, err := p.Fetch(FetchRequest{Offset: 5, Replica: 2, LastFetchedEpoch: -1}); err != nil {
			t.Fatal(err)
		}
		log.reads = 0
		got, err := p.Fetch(FetchRequest{MaxBytes: 100, Replica: test.replica, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Throttle: test.rate})
		if err != nil {
			t.Fatal(err)
		}
		if got.Throttled != test.throttled || got.Held != test.held || (log.reads == 0) != test.held {
			t.Errorf("%s: throttled %v, held %v, %d reads", test.name, got.Throttled, got.Held, log.reads)
		}
	}
}

// TestHeldAtTheEnd: what has everything is not held: it waits for more like others.
func TestHeldAtTheEnd(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{LeaderThrottled: quota.ReplicasOf([]string{"*"}, 1)}, 1, 2)
	after := registration(1, 0, 1, 2)
	after.PartitionEpoch, after.ISR = 1, []protocol.NodeID{1}
	p.become(after, actionUpdate, log, 0)
	mustAppend(t, p, 5)
	got, err := p.Fetch(FetchRequest{Offset: 5, MaxBytes: 100, Replica: 2, LastFetchedEpoch: -1, Throttle: exhausted()})
	if err != nil || got.Held {
		t.Errorf("held %v, %v", got.Held, err)
	}
}

// TestThrottlesItself: a follower says that what it fetches counts while it is out of
// the ISR, and no longer.
func TestThrottlesItself(t *testing.T) {
	log := &fakeLog{}
	p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{FollowerThrottled: quota.ReplicasOf([]string{"0:1"}, 1)}, &told{})
	after := registration(2, 3, 1, 2)
	after.ISR = []protocol.NodeID{2}
	p.become(after, actionFollow, log, 0)
	if !position(t, p).Throttled {
		t.Error("a follower that has to catch up is not throttled")
	}
	in := registration(2, 3, 1, 2)
	in.PartitionEpoch = 4
	p.become(in, actionUpdate, log, 0)
	if position(t, p).Throttled {
		t.Error("a follower in sync is throttled")
	}
}
