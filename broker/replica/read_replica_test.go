package replica

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// TestReadFromFollower: a follower serves consumers what it knows to be committed,
// if they may read from followers. What it does not have, the leader may: that is
// not out of range.
func TestReadFromFollower(t *testing.T) {
	log := &fakeLog{}
	p := following(log, &told{})
	if err := p.AppendAsFollower(position(t, p), records(5), 2, 0); err != nil {
		t.Fatal(err)
	}
	log.start = 1
	consumer := FetchRequest{MaxBytes: 100, Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, FollowerToo: true}
	for _, tc := range []struct {
		name    string
		change  func(*FetchRequest)
		want    error
		records bool
	}{
		{"committed", func(r *FetchRequest) { r.Offset = 1 }, nil, true},
		{"not committed", func(r *FetchRequest) { r.Offset = 2 }, nil, false},
		{"at the end", func(r *FetchRequest) { r.Offset = 5 }, nil, false},
		{"beyond the end", func(r *FetchRequest) { r.Offset = 6 }, protocol.ErrOffsetNotAvailable, false},
		{"before the start", func(r *FetchRequest) { r.Offset = 0 }, protocol.ErrOffsetOutOfRange, false},
		{"under the epoch", func(r *FetchRequest) { r.Offset, r.CurrentLeaderEpoch = 1, 3 }, nil, true},
		{"under an old epoch", func(r *FetchRequest) { r.CurrentLeaderEpoch = 2 }, protocol.ErrFencedLeaderEpoch, false},
		{"under a later epoch", func(r *FetchRequest) { r.CurrentLeaderEpoch = 4 }, protocol.ErrUnknownLeaderEpoch, false},
		{"from the leader alone", func(r *FetchRequest) { r.FollowerToo = false }, protocol.ErrNotLeaderForPartition, false},
		{"as a replica", func(r *FetchRequest) { r.Replica, r.FollowerToo = 2, false }, protocol.ErrNotLeaderForPartition, false},
	} {
		req := consumer
		tc.change(&req)
		before := log.reads
		got, err := p.Fetch(req)
		if !errors.Is(err, tc.want) || (log.reads > before) != tc.records || err == nil && got.HighWatermark != 2 {
			t.Errorf("%s: %+v, %v; want %v, records: %v", tc.name, got, err, tc.want, tc.records)
		}
	}
}

// TestWaitAtFollower: a consumer that waits at a follower goes on when that learns
// that more is committed, and when its role changes.
func TestWaitAtFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		p := following(log, &told{})
		w := NewWaiter(1)
		waits := func(wake func()) bool {
			t.Helper()
			req := FetchRequest{MaxBytes: 100, Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, FollowerToo: true, Offset: log.leo}
			seen, err := p.Fetch(req)
			if err != nil {
				t.Fatal(err)
			}
			p.ParkForFetch(w, req, seen)
			go func() {
				time.Sleep(time.Second)
				wake()
			}()
			return w.Wait(t.Context(), time.Now().Add(time.Minute))
		}
		take := func(n int, committed int64) func() {
			return func() {
				var batches []byte
				if n > 0 {
					batches = records(n)
				}
				if err := p.AppendAsFollower(position(t, p), batches, committed, 0); err != nil {
					t.Error(err)
				}
			}
		}
		if waits(take(5, 0)) {
			t.Error("records that are not committed wake a consumer")
		}
		if !waits(take(0, 5)) {
			t.Error("a higher high watermark wakes no consumer")
		}
		if !waits(func() { p.become(registration(1, 4, 1, 2), actionLead, log, 0) }) {
			t.Error("another role wakes no consumer")
		}
	})
}

// TestReadReplicas: which followers a leader may send consumers to.
func TestReadReplicas(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1, 2, 3, 4)
	mustAppend(t, p, 10)
	p.become(&metadata.Partition{Leader: 1, PartitionEpoch: 1, Replicas: []protocol.NodeID{1, 2, 3, 4}, ISR: []protocol.NodeID{1, 2, 3}}, actionUpdate, log, 0)
	for _, f := range []struct {
		id          protocol.NodeID
		start, ends int64
	}{{2, 0, 8}, {3, 5, 10}, {4, 0, 10}} {
		req := FetchRequest{Offset: f.ends, LogStartOffset: f.start, MaxBytes: 100, Replica: f.id, LastFetchedEpoch: -1}
		if _, err := p.Fetch(req); err != nil {
			t.Fatal(err)
		}
	}
	for offset, want := range map[int64][]protocol.NodeID{0: {2}, 4: {2}, 5: {2, 3}, 8: {2, 3}, 9: {3}, 10: {3}, 11: nil} {
		leader, followers := p.ReadReplicas(offset)
		var got []protocol.NodeID
		for _, f := range followers {
			got = append(got, f.ID)
		}
		if leader != 1 || !slices.Equal(got, want) {
			t.Errorf("from %d: %v of leader %d, want %v", offset, got, leader, want)
		}
	}
	p.become(registration(2, 1, 1, 2, 3, 4), actionFollow, log, 0)
	if leader, followers := p.ReadReplicas(5); leader != protocol.NoNode || followers != nil {
		t.Errorf("a follower names %v of leader %d", followers, leader)
	}
}
