package replica

import (
	"testing"
	"time"

	"github.com/klamm/klamm/protocol"
)

// watched is a partition that 2 follows and watches.
type watched struct {
	*Partition
	t       *testing.T
	watcher *Watcher
	watch   Watch
	told    Fetched
}

// fetchBy is a fetch of a follower that has so much.
func fetchBy(id protocol.NodeID, offset int64) FetchRequest {
	return FetchRequest{Offset: offset, MaxBytes: 100, Replica: id, ReplicaEpoch: -1, CurrentLeaderEpoch: 0, LastFetchedEpoch: -1}
}

func (w *watched) fetch(id protocol.NodeID, offset int64) Fetched {
	w.t.Helper()
	told, err := w.Fetch(fetchBy(id, offset))
	if err != nil {
		w.t.Fatal(err)
	}
	if told.Records != nil {
		told.Records.Release()
	}
	return told
}

// begin tells whether the follower may watch after a fetch that says it has so much.
func (w *watched) begin(offset int64) bool {
	w.t.Helper()
	w.told = w.fetch(2, offset)
	return w.watch.Begin(w.watcher, w.Partition, fetchBy(2, offset), w.told)
}

func (w *watched) woken() bool {
	w.t.Helper()
	switch all := w.watcher.Woken(); {
	case len(all) > 1 || len(all) == 1 && all[0] != &w.watch:
		w.t.Fatalf("woken: %v", all)
	case len(all) == 1:
		return true
	}
	return false
}

func watching(t *testing.T, replicas ...protocol.NodeID) *watched {
	return &watched{Partition: leading(&fakeLog{}, TopicConfig{MinInSyncReplicas: 1, Deletes: true}, replicas...), t: t, watcher: NewWatcher(2)}
}

// A follower watches where it has everything and knows so, and only there.
func TestWatchWhatIsIdle(t *testing.T) {
	w := watching(t, 1, 2)
	if !w.begin(0) {
		t.Fatal("an empty log can not be watched")
	}
	waiter := NewWaiter(0)
	w.watcher.Wake(waiter)
	mustAppend(t, w.Partition, 1)
	if !waiter.Wait(t.Context(), time.Now().Add(time.Minute)) || !w.woken() || w.woken() {
		t.Fatal("an append does not wake once")
	}
	if w.begin(0) {
		t.Fatal("it watches, and lacks a record")
	}
	w.told = w.fetch(2, 1)
	if !w.watch.Begin(w.watcher, w.Partition, fetchBy(2, 1), w.told) {
		t.Fatal("it has all, and can not watch")
	}
	w.watch.End()
	mustAppend(t, w.Partition, 1)
	if w.woken() {
		t.Fatal("woken after the end")
	}
}

// What a follower was told that is not so any more it has to be told again.
func TestWatchKnowsTheHighWatermark(t *testing.T) {
	w := watching(t, 1, 2, 3)
	mustAppend(t, w.Partition, 1)
	if !w.begin(1) {
		t.Fatal("can not watch")
	}
	w.fetch(3, 1)
	if hw, _ := w.HighWatermark(); hw != 1 || !w.woken() {
		t.Fatalf("high watermark %d does not wake", hw)
	}
	if w.watch.Begin(w.watcher, w.Partition, fetchBy(2, 1), w.told) {
		t.Fatal("it watches, and believes in an old high watermark")
	}
}

// Who is not in the ISR is looked at with every fetch: it may come in.
func TestWatchIsForTheISR(t *testing.T) {
	w := watching(t, 1, 2)
	w.inSync.committed = []protocol.NodeID{1}
	if w.begin(0) {
		t.Fatal("it watches and is not in the ISR")
	}
	w.inSync.committed = []protocol.NodeID{1, 2}
	w.inSync.proposed = []protocol.NodeID{1}
	if w.begin(0) {
		t.Fatal("it watches while it is to leave the ISR")
	}
	w.inSync.proposed = nil
	if !w.begin(0) {
		t.Fatal("can not watch")
	}
	if _, err := w.DeleteRecords(0); err != nil || !w.woken() {
		t.Fatal("a deletion does not wake")
	}
}

// While it watches, a follower is as caught up as its last fetch of anything is
// young: an append must not make it lag, and a follower that is away must.
func TestWatcherDoesNotLag(t *testing.T) {
	const lag = 30 * time.Second
	start := time.Now()
	for _, tc := range []struct {
		seen, now time.Duration
		lags      bool
	}{
		{time.Hour, time.Hour + lag - time.Second, false},
		{time.Hour, time.Hour + lag + time.Second, true},
		{0, time.Hour, true},
	} {
		w := watching(t, 1, 2)
		if !w.begin(0) {
			t.Fatal("can not watch")
		}
		w.watcher.Seen(start.Add(tc.seen))
		if w.lags(start.Add(tc.now), lag) {
			t.Errorf("%v: it lags and has all there is", tc)
		}
		mustAppend(t, w.Partition, 1)
		if w.lags(start.Add(tc.now), lag) != tc.lags {
			t.Errorf("%v: lags %v", tc, !tc.lags)
		}
		// The same where the fetch itself ends the watch.
		w = watching(t, 1, 2)
		w.begin(0)
		w.watcher.Seen(start.Add(tc.seen))
		w.watch.End()
		mustAppend(t, w.Partition, 1)
		if w.lags(start.Add(tc.now), lag) != tc.lags {
			t.Errorf("%v: lags %v after its end", tc, !tc.lags)
		}
	}
}
