package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/protocol"
)

func everybody(protocol.NodeID) bool { return true }

// TestDeleteRecords goes through the offsets that a client may ask for (known
// faults B029, B030).
func TestDeleteRecords(t *testing.T) {
	for _, tc := range []struct {
		name    string
		offset  int64
		deletes bool
		before  int64
		code    protocol.Error
	}{
		{"in the middle", 7, true, 7, protocol.None},
		{"below the start", 3, true, 3, protocol.None},
		{"everything", UpToHighWatermark, true, 10, protocol.None},
		{"the high watermark by its number", 10, true, 10, protocol.None},
		{"beyond the high watermark", 11, true, 0, protocol.ErrOffsetOutOfRange},
		{"negative", -2, true, 0, protocol.ErrOffsetOutOfRange},
		{"a topic that is compacted only", 0, false, 0, protocol.ErrPolicyViolation},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &fakeLog{start: 5}
			p := leading(log, TopicConfig{Deletes: tc.deletes}, 1)
			mustAppend(t, p, 10)
			d, err := p.DeleteRecords(tc.offset)
			if protocol.CodeOf(err) != tc.code {
				t.Fatalf("%v, want %v", err, tc.code)
			}
			if err != nil {
				if log.start != 5 {
					t.Errorf("a refused deletion moved the start to %d", log.start)
				}
				return
			}
			low, done, err := p.Deleted(d, everybody)
			if want := max(5, tc.before); d.Before != tc.before || low != want || !done || err != nil {
				t.Errorf("before %d, low watermark %d, done %v, %v; want %d, %d", d.Before, low, done, err, tc.before, want)
			}
		})
	}
}

// TestDeleteRecordsOnlyCommitted: what is not on all in-sync replicas is not
// deleted, however long the leader's log is.
func TestDeleteRecordsOnlyCommitted(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{Deletes: true}, 1, 2)
	mustAppend(t, p, 10)
	if _, err := p.DeleteRecords(1); protocol.CodeOf(err) != protocol.ErrOffsetOutOfRange {
		t.Errorf("deleted above the high watermark 0: %v", err)
	}
	if d, err := p.DeleteRecords(UpToHighWatermark); err != nil || d.Before != 0 {
		t.Errorf("deleted up to %d, %v", d.Before, err)
	}
}

// TestDeletionWaitsForFollowers: a deletion is done when the replicas on brokers
// that are alive say that their logs start there too.
func TestDeletionWaitsForFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		p := leading(log, TopicConfig{Deletes: true}, 1, 2, 3)
		mustAppend(t, p, 10)
		fetch := func(id protocol.NodeID, start int64) {
			req := FetchRequest{Offset: 10, Replica: id, LogStartOffset: start, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}
			if _, err := p.Fetch(req); err != nil {
				t.Error(err)
			}
		}
		fetch(2, 0)
		fetch(3, 0)
		d, err := p.DeleteRecords(4)
		if err != nil {
			t.Fatal(err)
		}
		if low, done, _ := p.Deleted(d, everybody); low != 0 || done {
			t.Fatalf("low watermark %d, done %v, before any follower knows", low, done)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { fetch(2, 4) })
		time.AfterFunc(2*time.Second, func() { fetch(3, 6) })
		w := NewWaiter(1)
		p.ParkForDeletion(w, d)
		if !w.Wait(t.Context(), began.Add(time.Minute)) {
			t.Error("was not woken")
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("was woken after %v, the last replica followed after 2 s", took)
		}
		if low, done, err := p.Deleted(d, everybody); low != 4 || !done || err != nil {
			t.Errorf("low watermark %d, done %v, %v", low, done, err)
		}
		p.ParkForDeletion(w, d)
		if !w.Wait(t.Context(), time.Now().Add(time.Minute)) || time.Since(began) != 2*time.Second {
			t.Error("a deletion that is done was waited for")
		}
	})
}

// TestDeletionWithoutTheDead: a broker that is down holds up nobody.
func TestDeletionWithoutTheDead(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{Deletes: true, MinInSyncReplicas: 1}, 1, 2)
	mustAppend(t, p, 10)
	shrunk := registration(1, 0, 1, 2)
	shrunk.ISR, shrunk.PartitionEpoch = []protocol.NodeID{1}, 1
	p.become(shrunk, actionUpdate, log, 0)
	d, err := p.DeleteRecords(4)
	if err != nil {
		t.Fatal(err)
	}
	if _, done, _ := p.Deleted(d, everybody); done {
		t.Error("done though broker 2 lives and has not followed")
	}
	if low, done, _ := p.Deleted(d, func(id protocol.NodeID) bool { return id != 2 }); low != 4 || !done {
		t.Errorf("low watermark %d, done %v without broker 2", low, done)
	}
}

// TestDeletionEndsWithTheLeadership: whoever waits is told to look elsewhere.
func TestDeletionEndsWithTheLeadership(t *testing.T) {
	log := &fakeLog{}
	p := leading(log, TopicConfig{Deletes: true}, 1, 2)
	w := NewWaiter(1)
	p.ParkForDeletion(w, Deletion{Before: 1})
	p.become(registration(2, 1, 1, 2), actionFollow, log, 0)
	if !w.Wait(t.Context(), time.Now().Add(time.Minute)) {
		t.Error("was not woken")
	}
	if _, _, err := p.Deleted(Deletion{Before: 1}, everybody); protocol.CodeOf(err) != protocol.ErrNotLeaderForPartition {
		t.Errorf("%v", err)
	}
}
