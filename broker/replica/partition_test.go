package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

func mustAppend(t *testing.T, p *Partition, n int) Appended {
	t.Helper()
	a, err := p.AppendAsLeader(records(n), true, storage.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantCommitted checks what Committed says of a.
func wantCommitted(t *testing.T, p *Partition, a Appended, want bool, code protocol.Error) {
	t.Helper()
	done, err := p.Committed(a)
	if done != want || protocol.CodeOf(err) != code {
		t.Fatalf("committed: %v, %v; want %v, %v", done, err, want, code)
	}
}

// wantHighWatermark also checks invariant 3: the high watermark is not beyond
// the LEO.
func wantHighWatermark(t *testing.T, p *Partition, log *fakeLog, want int64) {
	t.Helper()
	got, ok := p.HighWatermark()
	if got > log.leo {
		t.Fatalf("high watermark %d is beyond the LEO %d", got, log.leo)
	}
	if !ok || got != want {
		t.Fatalf("high watermark %d (known: %v), want %d", got, ok, want)
	}
}

// TestAppendAlone: the only in-sync replica commits what it appends.
func TestAppendAlone(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{MinInSyncReplicas: 2}, 1)
	a := mustAppend(t, p, 3)
	if a.FirstOffset != 0 || a.LastOffset != 2 || a.LeaderEpoch != 0 {
		t.Errorf("appended %+v", a)
	}
	wantHighWatermark(t, p, log, 3)
	wantCommitted(t, p, a, true, protocol.None)
}

// TestFailedAppendMovesNothing: a batch that did not reach the log is no offset
// and wakes nobody.
func TestFailedAppendMovesNothing(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1)
	mustAppend(t, p, 1)
	log.failAppend = errDisk
	if _, err := p.AppendAsLeader(records(1), false, storage.AppendOptions{}); !errors.Is(err, errDisk) {
		t.Fatalf("append: %v", err)
	}
	wantHighWatermark(t, p, log, 1)
}

// TestHighWatermarkFollowsReplicas walks through case A of the follower fetch:
// a record is committed when the fetch after it says that the follower has it.
func TestHighWatermarkFollowsReplicas(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{MinInSyncReplicas: 1}, 1, 2, 3)
	a := mustAppend(t, p, 1)
	wantHighWatermark(t, p, log, 0)
	wantCommitted(t, p, a, false, protocol.None)
	fetch := func(replica protocol.NodeID, offset int64) {
		t.Helper()
		req := FetchRequest{Offset: offset, MaxBytes: 100, Replica: replica, CurrentLeaderEpoch: 0, LastFetchedEpoch: -1}
		if _, err := p.Fetch(req); err != nil {
			t.Fatal(err)
		}
	}
	fetch(2, 0)
	fetch(3, 0)
	wantHighWatermark(t, p, log, 0)
	fetch(2, 1)
	wantHighWatermark(t, p, log, 0)
	fetch(3, 1)
	wantHighWatermark(t, p, log, 1)
	wantCommitted(t, p, a, true, protocol.None)
}

// TestFlushBeforeCommit: with flush.messages=1 a record counts when it is synced.
func TestFlushBeforeCommit(t *testing.T) {
	log := &fakeLog{flushDue: true}
	p := leading(log, TopicConfig{}, 1)
	a, b := mustAppend(t, p, 1), mustAppend(t, p, 2)
	wantHighWatermark(t, p, log, 0)
	if err := p.Flush(a); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 1)
	wantCommitted(t, p, a, true, protocol.None)
	wantCommitted(t, p, b, false, protocol.None)
	log.failFlush = errDisk
	if err := p.Flush(b); !errors.Is(err, errDisk) {
		t.Fatalf("flush: %v", err)
	}
	wantHighWatermark(t, p, log, 1)
	log.failFlush = nil
	if err := p.Flush(b); err != nil {
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 3)
	wantCommitted(t, p, b, true, protocol.None)
}

// TestUnflushedAfterLeadership: what was to be synced under a leadership that is
// over holds nothing back under the next one, which may have a shorter log.
func TestUnflushedAfterLeadership(t *testing.T) {
	log := &fakeLog{flushDue: true}
	p := leading(log, TopicConfig{}, 1)
	a := mustAppend(t, p, 5)
	p.become(registration(2, 1, 1, 2), actionFollow, log, 0)
	log.leo, log.flushDue = 2, false // truncated
	p.become(registration(1, 2, 1), actionLead, log, 0)
	mustAppend(t, p, 1)
	wantHighWatermark(t, p, log, 3)
	if err := p.Flush(a); err != nil { // whoever still waits for the old one
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 3)
	wantCommitted(t, p, a, false, protocol.ErrNotLeaderForPartition)
}

// TestFollowerOfAnEarlierEpoch: what a replica fetched under an earlier
// leadership says nothing about what it has now.
func TestFollowerOfAnEarlierEpoch(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1, 2)
	mustAppend(t, p, 1)
	if _, err := p.Fetch(FetchRequest{Offset: 0, MaxBytes: 1, Replica: 2, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}); err != nil {
		t.Fatal(err)
	}
	p.become(registration(1, 1, 1, 2), actionLead, log, 0)
	p.followerReached(FetchRequest{Replica: 2, Offset: 1}, 0, log.leo) // a fetch that was on its way
	wantHighWatermark(t, p, log, 0)
	p.followerReached(FetchRequest{Replica: 2, Offset: 1}, 1, log.leo)
	wantHighWatermark(t, p, log, 1)
}

// TestFetchOfAnEarlierLife: a fetch that was on its way when its broker lost its disk
// says nothing of what the broker has now, be it in sync again or not.
func TestFetchOfAnEarlierLife(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1, 2)
	mustAppend(t, p, 5)
	fetch := func(offset int64, life protocol.BrokerEpoch) error {
		_, err := p.Fetch(FetchRequest{Offset: offset, Replica: 2, ReplicaEpoch: life, CurrentLeaderEpoch: 0, LastFetchedEpoch: -1})
		return err
	}
	if err := fetch(2, 13); err != nil {
		t.Fatal(err)
	}
	if err := fetch(5, 12); !errors.Is(err, protocol.ErrNotLeaderForPartition) {
		t.Errorf("a fetch of an earlier life: %v", err)
	}
	wantHighWatermark(t, p, log, 2)
	if err := fetch(3, -1); err != nil { // a version that does not tell
		t.Fatal(err)
	}
	wantHighWatermark(t, p, log, 3)
}

func TestMinInSync(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{MinInSyncReplicas: 2}, 1, 2)
	a := mustAppend(t, p, 1)
	after := registration(1, 0, 1, 2)
	after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
	p.become(after, actionUpdate, nil, 0)
	// The high watermark waits although every member has the record.
	wantHighWatermark(t, p, log, 0)
	wantCommitted(t, p, a, false, protocol.None)
	if _, err := p.AppendAsLeader(records(1), true, storage.AppendOptions{}); protocol.CodeOf(err) != protocol.ErrNotEnoughReplicas {
		t.Errorf("acks=all: %v", err)
	}
	if _, err := p.AppendAsLeader(records(1), false, storage.AppendOptions{}); err != nil {
		t.Errorf("acks=1: %v", err)
	}
	p.setConfig(&TopicConfig{MinInSyncReplicas: 1})
	wantHighWatermark(t, p, log, 2)
}

// TestShrunkAfterAppend: the ISR was large enough for the append and for the
// high watermark, and then shrank before the answer.
func TestShrunkAfterAppend(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{MinInSyncReplicas: 2}, 1, 2)
	a := mustAppend(t, p, 1)
	p.followerReached(FetchRequest{Replica: 2, Offset: 1}, 0, log.leo)
	wantHighWatermark(t, p, log, 1)
	after := registration(1, 0, 1, 2)
	after.ISR, after.PartitionEpoch = []protocol.NodeID{1}, 1
	p.become(after, actionUpdate, nil, 0)
	wantCommitted(t, p, a, false, protocol.ErrNotEnoughReplicasAfterAppend)
}

// TestLeadershipLostAndRegained: what was appended before the break may have
// been truncated, so it is never reported as committed.
func TestLeadershipLostAndRegained(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1)
	a := mustAppend(t, p, 1)
	p.become(registration(1, 1, 1), actionLead, log, 0)
	wantCommitted(t, p, a, true, protocol.None) // led on under a new epoch
	p.become(registration(2, 2, 1, 2), actionFollow, log, 0)
	wantCommitted(t, p, a, false, protocol.ErrNotLeaderForPartition)
	p.become(registration(1, 3, 1), actionLead, log, 0)
	wantCommitted(t, p, a, false, protocol.ErrNotLeaderForPartition)
}

// TestCheckpointedHighWatermark: neither a checkpoint that is ahead of the log
// nor one that is behind its start is believed.
func TestCheckpointedHighWatermark(t *testing.T) {
	for _, tc := range []struct{ start, leo, checkpointed, want int64 }{{0, 10, 7, 7}, {0, 5, 7, 5}, {8, 10, 7, 8}, {0, 0, 3, 0}} {
		p := newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{}, &told{})
		log := &fakeLog{start: tc.start, leo: tc.leo}
		p.become(registration(1, 0, 1, 2), actionLead, log, tc.checkpointed)
		wantHighWatermark(t, p, log, tc.want)
	}
}

// TestFetchErrors is B026, B032 and B038 of package integration/faults too: what lies
// between high watermark and end is in range, whoever does not lead serves no
// consumer, and whoever is no replica is no follower.
func TestFetchErrors(t *testing.T) {
	log := &fakeLog{start: 3, leo: 3}
	p := leading(log, TopicConfig{}, 1, 2)
	p.become(registration(1, 4, 1, 2), actionLead, log, 0)
	mustAppend(t, p, 7) // offsets 3 to 9
	p.followerReached(FetchRequest{Replica: 2, Offset: 8}, 4, log.leo)
	ask := FetchRequest{Offset: 5, MaxBytes: 1, Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}
	for _, tc := range []struct {
		name   string
		change func(*FetchRequest)
		want   protocol.Error
	}{
		{"in range", func(*FetchRequest) {}, protocol.None},
		{"at the start", func(r *FetchRequest) { r.Offset = 3 }, protocol.None},
		{"below the start", func(r *FetchRequest) { r.Offset = 2 }, protocol.ErrOffsetOutOfRange},
		{"below the start with an epoch", func(r *FetchRequest) { r.Offset, r.LastFetchedEpoch = 2, 4 }, protocol.ErrOffsetOutOfRange},
		{"negative", func(r *FetchRequest) { r.Offset = -1 }, protocol.ErrOffsetOutOfRange},
		{"at the high watermark", func(r *FetchRequest) { r.Offset = 8 }, protocol.None},
		{"between high watermark and end", func(r *FetchRequest) { r.Offset = 9 }, protocol.None},
		{"at the end", func(r *FetchRequest) { r.Offset = 10 }, protocol.None},
		{"beyond the end", func(r *FetchRequest) { r.Offset = 11 }, protocol.ErrOffsetOutOfRange},
		{"right epoch", func(r *FetchRequest) { r.CurrentLeaderEpoch = 4 }, protocol.None},
		{"old epoch", func(r *FetchRequest) { r.CurrentLeaderEpoch = 3 }, protocol.ErrFencedLeaderEpoch},
		{"future epoch", func(r *FetchRequest) { r.CurrentLeaderEpoch = 5 }, protocol.ErrUnknownLeaderEpoch},
		{"last epoch from the future", func(r *FetchRequest) { r.LastFetchedEpoch = 9 }, protocol.ErrOffsetOutOfRange},
		{"negative size", func(r *FetchRequest) { r.MaxBytes = -1 }, protocol.ErrUnknownServerError},
		{"negative size at the end", func(r *FetchRequest) { r.Offset, r.MaxBytes = 10, -1 }, protocol.None},
		{"a replica", func(r *FetchRequest) { r.Replica = 2 }, protocol.None},
		{"the leader itself", func(r *FetchRequest) { r.Replica = 1 }, protocol.ErrNotLeaderForPartition},
		{"no replica", func(r *FetchRequest) { r.Replica = 5 }, protocol.ErrNotLeaderForPartition},
		{"no replica, with an epoch", func(r *FetchRequest) { r.Replica, r.CurrentLeaderEpoch = 5, 4 }, protocol.ErrUnknownLeaderEpoch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := ask
			tc.change(&req)
			if _, err := p.Fetch(req); protocol.CodeOf(err) != tc.want {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
	p.become(registration(2, 5, 1, 2), actionFollow, log, 0)
	if _, err := p.Fetch(ask); protocol.CodeOf(err) != protocol.ErrNotLeaderForPartition {
		t.Errorf("a follower: %v", err)
	}
	p.stop()
	if _, err := p.Fetch(ask); protocol.CodeOf(err) != protocol.ErrNotLeaderForPartition {
		t.Errorf("after the end: %v", err)
	}
	p = newPartition(protocol.TopicPartition{Topic: "t"}, protocol.UUID{1}, 1, &TopicConfig{}, &told{})
	p.fail(errDisk)
	if _, err := p.Fetch(ask); protocol.CodeOf(err) != protocol.ErrKafkaStorageError {
		t.Errorf("offline: %v", err)
	}
}

// TestFetchSeesNoUncommitted: a consumer is never read from at or above the high
// watermark (invariant 3).
func TestFetchSeesNoUncommitted(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1, 2)
	mustAppend(t, p, 5)
	req := FetchRequest{MaxBytes: 1 << 20, Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}
	if got, err := p.Fetch(req); err != nil || got.Records != nil || got.HighWatermark != 0 {
		t.Fatalf("fetched %+v, %v", got, err)
	}
	if log.reads != 0 {
		t.Error("the log was read")
	}
}

func TestDivergingEpoch(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{}, 1)
	mustAppend(t, p, 5)
	p.become(registration(1, 3, 1), actionLead, log, 0)
	mustAppend(t, p, 5)
	for _, tc := range []struct {
		offset   int64
		last     protocol.LeaderEpoch
		diverges bool
		epoch    protocol.LeaderEpoch
		end      int64
	}{
		{4, 0, false, 0, 0},
		{5, 0, false, 0, 0},
		{6, 0, true, 0, 5},
		{8, 3, false, 0, 0},
		{8, 2, true, 0, 5},
		{12, 3, true, 3, 10},
	} {
		got, err := p.Fetch(FetchRequest{Offset: tc.offset, MaxBytes: 1, Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: tc.last})
		if err != nil {
			t.Fatal(err)
		}
		if got.Diverges != tc.diverges || got.DivergingEpoch != tc.epoch || got.DivergingEnd != tc.end {
			t.Errorf("at %d after epoch %d: %+v", tc.offset, tc.last, got)
		}
	}
}

// waitFor parks a waiter and returns what Wait returned, after how long.
func waitFor(p *Partition, cond Condition, limit time.Duration) (bool, time.Duration) {
	begin := time.Now()
	w := NewWaiter(1)
	w.Park(p, cond)
	woken := w.Wait(context.Background(), begin.Add(limit))
	return woken, time.Since(begin)
}

func TestWaiterWakesOnHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leading(&fakeLog{}, TopicConfig{}, 1)
		go func() {
			time.Sleep(time.Second)
			mustAppend(t, p, 1)
			time.Sleep(time.Second)
			mustAppend(t, p, 1)
		}()
		woken, after := waitFor(p, Condition{HighWatermark: 2, LEO: Never}, time.Minute)
		if !woken || after != 2*time.Second {
			t.Errorf("woken %v after %v", woken, after)
		}
		if !p.waiters.empty() {
			t.Error("the waiter is still in the list")
		}
	})
}

func TestWaiterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leading(&fakeLog{}, TopicConfig{}, 1)
		woken, after := waitFor(p, Condition{HighWatermark: 1, LEO: Never}, 5*time.Second)
		if woken || after != 5*time.Second {
			t.Errorf("woken %v after %v", woken, after)
		}
		if !p.waiters.empty() {
			t.Error("the waiter is still in the list")
		}
	})
}

func TestWaiterCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leading(&fakeLog{}, TopicConfig{}, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := NewWaiter(1)
		w.Park(p, Condition{HighWatermark: 1, LEO: Never})
		if w.Wait(ctx, time.Now().Add(time.Hour)) {
			t.Error("woken")
		}
	})
}

// TestParkMissesNothing: what happened between the look and the park wakes.
func TestParkMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		p := leading(log, TopicConfig{}, 1)
		seen, err := p.Fetch(FetchRequest{Replica: protocol.NoNode, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, p, 1)
		w := NewWaiter(1)
		p.ParkForFetch(w, FetchRequest{Replica: protocol.NoNode}, seen)
		if !w.Wait(t.Context(), time.Now().Add(time.Hour)) {
			t.Error("an append before the park was missed")
		}
		p.become(registration(1, 1, 1), actionLead, log, 0)
		seen.HighWatermark = 1
		p.ParkForFetch(w, FetchRequest{Replica: protocol.NoNode}, seen)
		if !w.Wait(t.Context(), time.Now().Add(time.Hour)) {
			t.Error("a new leader epoch before the park was missed")
		}
	})
}

// TestRoleChangeWakes: whoever waits under a role that ends looks again.
func TestRoleChangeWakes(t *testing.T) {
	for name, change := range map[string]func(p *Partition, log *fakeLog){
		"follow": func(p *Partition, log *fakeLog) { p.become(registration(2, 1, 1, 2), actionFollow, log, 0) },
		"lead":   func(p *Partition, log *fakeLog) { p.become(registration(1, 1, 1), actionLead, log, 0) },
		"delete": func(p *Partition, _ *fakeLog) { p.stop() },
		"fail":   func(p *Partition, _ *fakeLog) { p.fail(errDisk) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &fakeLog{}
				p := leading(log, TopicConfig{}, 1)
				go func() { time.Sleep(time.Second); change(p, log) }()
				woken, after := waitFor(p, Condition{HighWatermark: 1, LEO: Never}, time.Minute)
				if !woken || after != time.Second {
					t.Errorf("woken %v after %v", woken, after)
				}
			})
		})
	}
}

// TestManyWaiters lets many waiters come and go on two partitions while both are
// appended to; run it with -race.
func TestManyWaiters(t *testing.T) {
	a, b := leading(&fakeLog{}, TopicConfig{}, 1), leading(&fakeLog{}, TopicConfig{}, 1)
	const rounds = 200
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			w := NewWaiter(2)
			for at := int64(1); at <= rounds; at++ {
				w.Park(a, Condition{HighWatermark: at, LEO: Never})
				w.Park(b, Condition{HighWatermark: Never, LEO: at})
				if !w.Wait(context.Background(), time.Now().Add(time.Minute)) {
					t.Error("not woken")
					return
				}
			}
		})
	}
	for range rounds {
		mustAppend(t, a, 1)
		mustAppend(t, b, 1)
	}
	wg.Wait()
	if !a.waiters.empty() || !b.waiters.empty() {
		t.Error("waiters are left")
	}
}
