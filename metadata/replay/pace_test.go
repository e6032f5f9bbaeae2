package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/raftlog"
)

// paced runs RunSnapshots on a world, and notes when snapshots were taken.
type paced struct {
	*world
	began time.Time

	mu    sync.Mutex // Take runs on the goroutine of RunSnapshots
	taken []time.Duration
	fail  error
	blind bool // Take finds nothing new
}

func runPaced(t *testing.T, pace SnapshotPace) *paced {
	p := &paced{world: newWorld(t), began: time.Now()}
	p.run(t, pace)
	return p
}

func (p *paced) run(t *testing.T, pace SnapshotPace) (stop func()) {
	pace.Take = func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fail != nil {
			return p.fail
		}
		if p.blind {
			return nil
		}
		p.taken = append(p.taken, time.Since(p.began))
		return p.takeSnapshot(uint64(len(p.entries)))
	}
	if pace.Trim == 0 {
		pace.Trim = time.Minute
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	r := p.r
	go func() { done <- r.RunSnapshots(ctx, pace) }()
	synctest.Wait()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// record applies one entry, of 98 bytes or so.
func (p *paced) record(t *testing.T) {
	t.Helper()
	id := len(p.entries) + 1
	if got := p.apply([]raftlog.Entry{p.entry([]string{fmt.Sprintf("topic t%d %d", id, id)}, p.term)}); got[:5] != "entry" {
		t.Fatal(got)
	}
	synctest.Wait()
}

func (p *paced) want(t *testing.T, taken ...time.Duration) {
	t.Helper()
	synctest.Wait() // a timer of this instant may be running
	p.mu.Lock()
	defer p.mu.Unlock()
	if fmt.Sprint(p.taken) != fmt.Sprint(taken) {
		t.Errorf("snapshots were taken at %v, want %v", p.taken, taken)
	}
}

func TestSnapshotsByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runPaced(t, SnapshotPace{Bytes: 1000})
		for p.log.Size() < 1000 {
			p.want(t)
			time.Sleep(time.Second)
			p.record(t)
		}
		first := time.Since(p.began)
		p.want(t, first)
		for size := p.log.Size(); p.log.Size() < size+1000; {
			p.want(t, first)
			time.Sleep(time.Second)
			p.record(t)
		}
		p.want(t, first, time.Since(p.began))
		time.Sleep(24 * time.Hour)
		p.want(t, first, p.taken[1])
	})
}

// By time a snapshot is taken when there is anything new, and not else.
func TestSnapshotsByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runPaced(t, SnapshotPace{Bytes: 1 << 20, Age: time.Hour})
		time.Sleep(90 * time.Minute)
		p.want(t)
		p.record(t)
		p.want(t, 90*time.Minute)
		time.Sleep(time.Minute)
		p.record(t)
		time.Sleep(5 * time.Hour)
		p.want(t, 90*time.Minute, 150*time.Minute)
	})
}

func TestSnapshotIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{world: newWorld(t), began: time.Now(), fail: ErrBehind}
		p.run(t, SnapshotPace{Bytes: 1, Age: time.Hour})
		p.record(t)
		time.Sleep(2 * time.Second)
		p.mu.Lock()
		p.fail = nil
		p.mu.Unlock()
		p.record(t) // not at once: an open transaction would be asked with each record
		p.want(t)
		time.Sleep(time.Minute)
		p.want(t, snapshotRetry)
	})
}

// A record counts as soon as it is applied, which is before Raft knows that it
// is; a snapshot that seems to have nothing new is none, and is tried again.
func TestSnapshotOfWhatRaftHasNotNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{world: newWorld(t), began: time.Now(), blind: true}
		p.run(t, SnapshotPace{Bytes: 1})
		p.record(t)
		time.Sleep(unnoticedPause / 2)
		p.mu.Lock()
		p.blind = false
		p.mu.Unlock()
		p.want(t)
		time.Sleep(time.Second)
		p.want(t, unnoticedPause)
	})
}

// After a start the bytes behind the newest checkpoint count, and its age.
func TestSnapshotsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paced{world: newWorld(t), began: time.Now()}
		stop := p.run(t, SnapshotPace{Bytes: 1000})
		for range 5 {
			p.record(t)
		}
		if err := p.takeSnapshot(5); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			p.record(t)
		}
		size := p.r.behind()
		stop()
		if err := p.log.Close(); err != nil {
			t.Fatal(err)
		}
		if err := p.open(); err != nil {
			t.Fatal(err)
		}
		if got := p.r.behind(); got == 0 || got != size {
			t.Errorf("%d bytes are behind after the restart, %d before", got, size)
		}
		// A follower that gets the snapshot has nothing behind it.
		follower := newWorld(t)
		follower.apply([]raftlog.Entry{follower.entry([]string{"topic t1 1"}, 1)})
		metas, err := p.store.List()
		if err != nil {
			t.Fatal(err)
		}
		if err := follower.restore(p.store, metas[0].ID); err != nil || follower.r.behind() != 0 {
			t.Errorf("%d bytes are behind a snapshot that was received, %v", follower.r.behind(), err)
		}
	})
}

// What lies below both checkpoints goes by the log's retention, and the node
// starts from what is left.
func TestMetadataLogIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runPaced(t, SnapshotPace{Bytes: 1 << 30, Trim: time.Second})
		cfg := p.log.Config()
		cfg.SegmentBytes, cfg.RetentionBytes, cfg.RetentionMs = 500, 0, -1
		p.log.SetConfig(cfg)
		for range 20 {
			p.record(t)
		}
		time.Sleep(10 * time.Second)
		if start := p.log.LogStartOffset(); start != 0 {
			t.Fatalf("the log starts at %d without a checkpoint", start)
		}
		for range 2 {
			if err := p.takeSnapshot(uint64(len(p.entries))); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				p.record(t)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		ids, err := snapshot.Checkpoints(p.fs, metadataDir)
		if err != nil || len(ids) != 2 {
			t.Fatalf("checkpoints %v, %v", ids, err)
		}
		start := p.log.LogStartOffset()
		if start == 0 || start > ids[0].Offset {
			t.Errorf("the log starts at %d, the oldest checkpoint ends at %d", start, ids[0].Offset)
		}
		if start < ids[0].Offset-10 {
			t.Errorf("the log starts at %d, a segment holds less than 10 records and the oldest checkpoint ends at %d", start, ids[0].Offset)
		}
		want := p.r.Image().Digest()
		// The newest checkpoint is damaged: the older one and the log have all.
		if err := errors.Join(p.log.Close(), p.fs.Remove(metadataDir+"/"+ids[1].FileName())); err != nil {
			t.Fatal(err)
		}
		if err := p.open(); err != nil {
			t.Fatal(err)
		}
		if got := p.r.Image().Digest(); got != want {
			t.Errorf("the image after the restart is another one: %v, want %v", got, want)
		}
	})
}
