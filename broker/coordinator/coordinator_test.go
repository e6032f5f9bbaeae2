package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/batch"
)

// State is appended, applied, answered, and there again under the next leadership.
func TestStateOutlivesALeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.end()
		w.expect(add{"a"}, "NOT_COORDINATOR") // no topic yet
		w.topic(1)
		synctest.Wait()
		w.expect(add{"a"}, "1")
		w.expect(add{"a"}, "2")
		w.expect(add{"b"}, "1")
		parked := w.c.Submit(0, park{"x"})
		w.lead(1) // a new epoch of the same leader: another machine
		if got := answer(parked); got != "NOT_COORDINATOR" {
			t.Errorf("parked call got %s", got)
		}
		synctest.Wait()
		w.expect(get{"a"}, "2")
		w.expect(add{"b"}, "2")
		w.lead(2)
		w.expect(get{"a"}, "NOT_COORDINATOR")
		w.lead(1)
		synctest.Wait()
		w.expect(get{"b"}, "2")
		w.apply(&record.RemoveTopic{TopicID: stateID})
		w.expect(get{"b"}, "NOT_COORDINATOR")
	})
}

func TestParkedCallsAreAnsweredByLaterEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.end()
		w.topic(1)
		synctest.Wait()
		parked := w.c.Submit(0, park{"x"})
		w.expect(free{"x"}, "0")
		if got := answer(parked); got != "7" {
			t.Errorf("got %s", got)
		}
		w.expect(alarm{time.Minute}, "<nil>")
		time.Sleep(59 * time.Second)
		w.expect(get{"alarm"}, "0")
		time.Sleep(time.Second)
		synctest.Wait()
		w.expect(get{"alarm"}, "1")
		left := w.c.Submit(0, park{"y"})
		w.end()
		if got := answer(left); got != "NOT_COORDINATOR" {
			t.Errorf("at the end: got %s", got)
		}
		w.expect(get{"a"}, "NOT_COORDINATOR")
	})
}

// Nobody is told of a record that is not committed, by whomever it was written.
func TestAnswersWaitForTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.end()
		w.topic(1, 2)
		synctest.Wait()
		type result struct{ who, got string }
		results := make(chan result, 3)
		ask := func(who string, c *Call) {
			go func() { results <- result{who, answer(c)} }()
		}
		w.expect(get{"a"}, "0") // decided on nothing: no wait
		ask("add", w.c.Submit(0, add{"a"}))
		ask("get", w.c.Submit(0, get{"a"}))
		synctest.Wait()
		if len(results) != 0 {
			t.Fatalf("answered before it was committed: %v", <-results)
		}
		fetch := func(offset int64) {
			got, err := w.partition().Fetch(replica.FetchRequest{Offset: offset, MaxBytes: 1000, Replica: 2, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
			if err != nil {
				t.Fatal(err)
			}
			if got.Records != nil {
				got.Records.Release()
			}
		}
		fetch(0)
		synctest.Wait()
		if len(results) != 0 {
			t.Fatal("answered though the follower has nothing")
		}
		fetch(1)
		synctest.Wait()
		for range 2 {
			if r := <-results; r.got != "1" {
				t.Errorf("%s got %s", r.who, r.got)
			}
		}
		// One that is never committed is given up, and one under a lost leadership.
		begin := time.Now()
		w.expect(add{"a"}, "COORDINATOR_NOT_AVAILABLE")
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		call := w.c.Submit(0, add{"a"})
		synctest.Wait()
		w.lead(2)
		if got := answer(call); got != "NOT_COORDINATOR" {
			t.Errorf("under a lost leadership: got %s", got)
		}
	})
}

// While a shard loads, calls are told so, and events that nobody waits for are
// kept. What it loads has to be committed first.
func TestLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{QueueLength: 2})
		defer w.end()
		w.topic(1)
		synctest.Wait()
		w.expect(add{"a"}, "1")
		w.apply(&record.PartitionChange{
			TopicID: stateID, Leader: 1, Replicas: []protocol.NodeID{1, 2}, ISR: []protocol.NodeID{1, 2},
			LeaderRecovery: record.RecoveryUnchanged,
		})
		synctest.Wait()
		w.expect(get{"a"}, "1") // committed before: nothing to wait for
		w.c.Submit(0, add{"a"})
		synctest.Wait()
		w.lead(1)
		synctest.Wait()
		w.expect(get{"a"}, "COORDINATOR_LOAD_IN_PROGRESS")
		w.c.Tell(add{"told"})
		if _, err := w.partition().Fetch(replica.FetchRequest{Offset: 2, MaxBytes: 1000, Replica: 2, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := w.machines[len(w.machines)-1]; m.byName["a"] != 2 || m.byName["told"] != 1 {
			t.Errorf("loaded %v", m.byName)
		}
	})
}

func TestFullQueue(t *testing.T) {
	// The loop does not run: the shard is entered by hand.
	c := New(Config{QueueLength: 2, Topic: "state"}, nopLog)
	s := newShard(c, stateID, 0, 0)
	s.phase = active
	calls := []*Call{s.submit(get{"a"}), s.submit(get{"a"})}
	if got := decided(s.submit(get{"a"})); got != "COORDINATOR_LOAD_IN_PROGRESS" {
		t.Errorf("third call of two: got %s", got)
	}
	s.tell(get{"a"})
	if got := len(s.take()); got != 3 {
		t.Errorf("%d in the queue", got)
	}
	calls = append(calls, s.submit(get{"a"}))
	s.close()
	if got := decided(calls[2]); got != "NOT_COORDINATOR" {
		t.Errorf("queued call of an ended shard: got %s", got)
	}
}

// Batches stay below the topic's limit: where records may be split they are,
// else they are refused.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.end()
		w.topic(1)
		synctest.Wait()
		w.expect(many{n: 10, size: 900}, "10")
		if offset, _ := w.partition().HighWatermark(); offset != 10 {
			t.Errorf("%d records were written", offset)
		}
		w.expect(many{n: 1, size: maxBatch}, "UNKNOWN_SERVER_ERROR")
		w.expect(guarded{size: maxBatch}, "1") // decided by its Then
		if m := w.machines[0]; protocol.CodeOf(m.broken) != protocol.ErrUnknownServerError {
			t.Errorf("Then was told %v", m.broken)
		}
		w.expect(guarded{size: 8}, "1")
		if m := w.machines[0]; m.broken != nil {
			t.Errorf("Then was told %v", m.broken)
		}
	})
}

// A batch that can not be read is left out, and nothing else.
func TestDamagedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.end()
		w.topic(1)
		synctest.Wait()
		w.expect(add{"a"}, "1")
		build := func() batch.Batch {
			b := batch.NewBuilder(batch.Options{})
			b.Append(batch.Record{Key: []byte("a"), Value: one("a").Value, Timestamp: 1})
			out, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		damaged := build()
		damaged[len(damaged)-3] ^= 1
		w.raw(damaged)
		short := build()
		short[len(short)-10] = 0x7f // a key that reaches beyond the batch
		short.SetCRC()
		w.raw(short)
		w.raw(build())
		w.lead(1)
		synctest.Wait()
		w.expect(get{"a"}, "2")
	})
}

func TestTimers(t *testing.T) {
	var ts timers
	now := time.Unix(0, 0)
	if ts.next(now) != 24*time.Hour {
		t.Error("a timer where there is none")
	}
	ts.set(Timer{Key: "a", After: 3, Event: "a"}, now)
	ts.set(Timer{Key: "b", After: 1, Event: "b"}, now)
	ts.set(Timer{Key: "c", After: 3, Event: "c"}, now)
	ts.set(Timer{Key: "d", After: 2, Event: "d"}, now)
	ts.set(Timer{Key: "b", After: 4, Event: "b2"}, now)
	ts.set(Timer{Key: "d"}, now)
	ts.set(Timer{Key: "e"}, now)
	if ts.next(now) != 3 {
		t.Errorf("next in %d", ts.next(now))
	}
	var got []any
	for at := now; at.Before(now.Add(10)); at = at.Add(1) {
		for event, ok := ts.due(at); ok; event, ok = ts.due(at) {
			got = append(got, at.Sub(now), event)
		}
	}
	want := []any{time.Duration(3), "a", time.Duration(3), "c", time.Duration(4), "b2"}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
