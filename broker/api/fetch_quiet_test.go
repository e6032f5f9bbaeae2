package api

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/broker/replica"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

// followerSession is broker 2 as it fetches from broker 1, in a session.
type followerSession struct {
	w     *dataWorld
	id    int32
	epoch int32
}

// follow begins a session with all partitions.
func (w *dataWorld) follow(req *kmsg.FetchRequest) *followerSession {
	w.t.Helper()
	req.Version, req.SessionEpoch, req.MaxWaitMillis = 18, 0, 0
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			req.Topics[i].Partitions[j].HighWatermark, req.Topics[i].Partitions[j].LogStartOffset = 0, 0
		}
	}
	resp := w.ask(req).(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 || resp.SessionID == 0 {
		w.t.Fatalf("no session: %+v", resp)
	}
	return &followerSession{w, resp.SessionID, 1}
}

// fetch asks for what is new, saying of some topics where their partition 0 ends and
// up to where it is committed.
func (s *followerSession) fetch(said ...string) string {
	s.w.t.Helper()
	req := followerFetch("-")
	req.Version, req.SessionID, req.SessionEpoch, req.Topics = 18, s.id, s.epoch, nil
	for _, of := range said {
		var name string
		var end, committed, start int64
		if _, err := fmt.Sscanf(of, "%s %d %d %d", &name, &end, &committed, &start); err != nil {
			s.w.t.Fatal(err)
		}
		t := fetchRequest(18, name, end).Topics[0]
		t.Partitions[0].HighWatermark, t.Partitions[0].LogStartOffset = committed, start
		req.Topics = append(req.Topics, t)
	}
	begin := time.Now()
	resp := s.w.ask(req).(*kmsg.FetchResponse)
	s.epoch++
	if resp.ErrorCode != 0 {
		return protocol.Error(resp.ErrorCode).Error()
	}
	var out []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			name := strings.TrimRight(string(t.TopicID[:14]), "\x00")
			switch {
			case p.ErrorCode != 0:
				out = append(out, fmt.Sprintf("%s %s", name, protocol.Error(p.ErrorCode)))
			default:
				out = append(out, fmt.Sprintf("%s bytes:%v hw:%d start:%d", name, len(p.RecordBatches) > 0, p.HighWatermark, p.LogStartOffset))
			}
		}
	}
	slices.Sort(out)
	return fmt.Sprintf("%v after %v", out, time.Since(begin))
}

func (s *followerSession) quiet() int {
	session := s.w.fetch.sessions.byID[s.id]
	session.mu.Lock()
	defer session.mu.Unlock()
	return session.count
}

func (s *followerSession) want(quiet int, got, want string) {
	s.w.t.Helper()
	if got != want {
		s.w.t.Errorf("got  %s\nwant %s", got, want)
	}
	if n := s.quiet(); n != quiet {
		s.w.t.Errorf("%d partitions are quiet, want %d", n, quiet)
	}
}

// A fetch is about the partitions with news, and misses none.
func TestFetchLeavesQuietPartitionsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.deletableTopic("a", 1, 2)
		b := w.topic("b", 1, 1, 1, 2)
		w.topic("c", 1, 1, 1, 2)
		s := w.follow(followerFetch("a", "b", "c"))
		later := func(do func()) {
			go func() { time.Sleep(100 * time.Millisecond); do() }()
		}
		s.want(3, s.fetch(), "[] after 500ms")
		s.want(3, s.fetch(), "[] after 500ms")
		later(func() { w.mustProduce("b", 1) })
		s.want(2, s.fetch(), "[b bytes:true hw:0 start:0] after 100ms")
		// Before the follower has said that it has it, it gets it again.
		s.want(2, s.fetch(), "[b bytes:true hw:0 start:0] after 0s")
		s.want(2, s.fetch("b 1 0 0"), "[b bytes:false hw:1 start:0] after 0s")
		s.want(3, s.fetch("b 1 1 0"), "[] after 500ms")
		// What came between two fetches.
		w.mustProduce("a", 2)
		s.want(2, s.fetch(), "[a bytes:true hw:0 start:0] after 0s")
		s.want(2, s.fetch("a 2 0 0"), "[a bytes:false hw:2 start:0] after 0s")
		s.want(3, s.fetch("a 2 2 0"), "[] after 500ms")
		// A deletion is told at the end of the fetch, and then the follower's start.
		w.ask(deleteRequest(0, "a", 0, 1))
		s.want(2, s.fetch(), "[a bytes:false hw:2 start:1] after 500ms")
		s.want(3, s.fetch("a 2 2 1"), "[] after 500ms")
		// A follower out of the ISR is looked at every time.
		w.apply(&record.PartitionChange{TopicID: b, Leader: 1, ISR: []protocol.NodeID{1}, LeaderRecovery: record.RecoveryUnchanged})
		s.want(2, s.fetch(), "[] after 500ms")
		later(func() { w.apply(&record.RemoveTopic{TopicID: worldTopicID("c", 1)}) })
		s.want(1, s.fetch(), "[c UNKNOWN_TOPIC_OR_PARTITION] after 100ms")
	})
}

// A follower that has come under another leader epoch meanwhile makes nothing of an
// answer, and asks again from where it stands: it is told again.
func TestFetchTellsFollowerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.deletableTopic("a", 1, 2)
		s := w.follow(followerFetch("a"))
		w.mustProduce("a", 2)
		s.fetch()
		for range 2 {
			s.want(0, s.fetch("a 2 0 0"), "[a bytes:false hw:2 start:0] after 0s")
		}
		s.want(1, s.fetch("a 2 2 0"), "[] after 500ms")
		w.ask(deleteRequest(0, "a", 0, 1))
		s.want(0, s.fetch(), "[a bytes:false hw:2 start:1] after 500ms")
		s.want(0, s.fetch("a 2 2 0"), "[a bytes:false hw:2 start:1] after 500ms")
		s.want(1, s.fetch("a 2 2 1"), "[] after 500ms")
	})
}

// Every partition is looked at now and then, whether it has woken anybody or not.
func TestFetchSweepsQuietPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		var log replica.Log
		w.wrap = func(l replica.Log) replica.Log { log = l; return l }
		w.topic("a", 1, 1, 1, 2)
		w.wrap = func(l replica.Log) replica.Log { return l }
		w.topic("b", 1, 1, 1, 2)
		s := w.follow(followerFetch("a", "b"))
		w.mustProduce("a", 3)
		s.fetch()
		s.fetch("a 3 0 0")
		s.want(2, s.fetch("a 3 3 0"), "[] after 500ms")
		if err := log.AdvanceLogStart(2); err != nil { // as retention does
			t.Fatal(err)
		}
		s.want(2, s.fetch(), "[] after 500ms")
		for range 59 {
			if got := s.fetch(); strings.Contains(got, "a bytes:false hw:3 start:2") {
				return
			}
		}
		t.Error("the follower is not told of the log start")
	})
}

// An earlier session watches nothing any more.
func TestSessionsEndWatching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("a", 1, 1, 1, 2)
		s := w.follow(followerFetch("a"))
		s.want(1, s.fetch(), "[] after 500ms")
		first := w.fetch.sessions.byID[s.id]
		req := followerFetch("a")
		req.SessionID = s.id
		next := w.follow(req)
		if first.count != 0 {
			t.Errorf("%d partitions are watched for a session that was given up", first.count)
		}
		next.want(1, next.fetch(), "[] after 500ms")
	})
}

// stuckLog is one on a disk that hangs.
type stuckLog struct {
	replica.Log
	stuck, free chan struct{}
}

func (l stuckLog) AppendAsLeader(b []byte, epoch protocol.LeaderEpoch, opts storage.AppendOptions) (storage.AppendResult, error) {
	close(l.stuck)
	<-l.free
	return l.Log.AppendAsLeader(b, epoch, opts)
}

// A disk that hangs holds up who fetches from it, and nobody else: a session that ends
// meanwhile, and watches a partition there, does not keep the others.
func TestSessionEndsOnStuckDisk(t *testing.T) {
	w := newDataWorld(t)
	log := stuckLog{nil, make(chan struct{}), make(chan struct{})}
	w.wrap = func(l replica.Log) replica.Log { log.Log = l; return log }
	w.topic("a", 1, 1, 1, 2)
	w.wrap = func(l replica.Log) replica.Log { return l }
	w.topic("b", 1, 1)
	s := w.follow(followerFetch("a"))
	next := followerFetch("-")
	next.Version, next.SessionID, next.SessionEpoch, next.MaxWaitMillis, next.Topics = 18, s.id, s.epoch, 0, nil
	if w.ask(next); s.quiet() != 1 {
		t.Fatal("nothing is watched")
	}
	var held sync.WaitGroup
	held.Go(func() { w.mustProduce("a", 1) })
	<-log.stuck
	held.Go(func() { // this and the next wait for the disk
		again := followerFetch("b")
		again.Version, again.SessionID, again.SessionEpoch, again.MaxWaitMillis = 18, s.id, 0, 0
		w.ask(again)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ended := false; !ended; {
			w.fetch.sessions.mu.Lock()
			ended = w.fetch.sessions.byID[s.id] == nil
			w.fetch.sessions.mu.Unlock()
			runtime.Gosched()
		}
		other := fetchRequest(18, "b", 0)
		other.SessionID, other.SessionEpoch, other.MaxWaitMillis = 0, 0, 0
		w.ask(other)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("a fetch of another topic waits for the disk")
	}
	close(log.free)
	held.Wait()
	<-done
}

// Whoever says that it is another follower is not taken for the one that watches.
func TestWatchingIsOfOneFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDataWorld(t)
		w.topic("a", 1, 1, 1, 2, 3)
		s := w.follow(followerFetch("a"))
		s.want(1, s.fetch(), "[] after 500ms")
		req := followerFetch("-")
		req.Version, req.SessionID, req.SessionEpoch, req.Topics, req.ReplicaState.ID = 18, s.id, s.epoch, nil, 3
		if resp := w.ask(req).(*kmsg.FetchResponse); resp.ErrorCode != 0 || s.quiet() != 0 {
			t.Errorf("error %d, %d partitions are quiet", resp.ErrorCode, s.quiet())
		}
		s.epoch++
		s.want(1, s.fetch(), "[] after 500ms")
	})
}

// TestQuietFetchCosts: what a fetch allocates does not grow with the partitions that
// have no news.
func TestQuietFetchCosts(t *testing.T) {
	// Time stands still in a bubble: nothing is swept meanwhile.
	synctest.Test(t, quietFetchCosts)
}

func quietFetchCosts(t *testing.T) {
	costs := make(map[int]float64)
	for _, n := range []int{10, 1000} {
		w := newDataWorld(t)
		w.topic("many", 1, n, 1, 2)
		req := followerFetch("many")
		req.Topics[0].Partitions = nil
		for i := range int32(n) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.PartitionMaxBytes = i, 1<<20
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		s := w.follow(req)
		next := followerFetch("-")
		next.Version, next.SessionID, next.Topics, next.MaxWaitMillis = 18, s.id, nil, 0
		costs[n] = testing.AllocsPerRun(100, func() {
			next.SessionEpoch = s.epoch
			s.epoch++
			w.ask(next)
		})
		if q := s.quiet(); q != n {
			t.Errorf("%d of %d partitions are quiet", q, n)
		}
	}
	if costs[1000] > costs[10]+2 {
		t.Errorf("allocations by partitions: %v", costs)
	}
}
