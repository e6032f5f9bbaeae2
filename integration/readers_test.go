//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readers are a group of three that reads a topic through the node's deaths and
// commits after every poll. Its members come and go.
type readers struct {
	t              *testing.T
	address, topic string
	partitions     int32

	mu        sync.Mutex
	seen      map[int32][]bool // by partition and offset
	committed map[int32]int64  // acknowledged
	commits   int
	left      []context.CancelFunc // of the members, oldest first
	running   sync.WaitGroup
}

const readersGroup = "readers"

func newReaders(t *testing.T, address, topic string, partitions int32) *readers {
	g := &readers{t: t, address: address, topic: topic, partitions: partitions, seen: make(map[int32][]bool), committed: make(map[int32]int64)}
	t.Cleanup(g.stop)
	for range 3 {
		g.join(kgo.RangeBalancer())
	}
	return g
}

// join adds a member.
func (g *readers) join(balancer kgo.GroupBalancer) {
	ctx, leave := context.WithCancel(context.Background())
	g.mu.Lock()
	g.left = append(g.left, leave)
	g.mu.Unlock()
	m := &reader{g: g, next: make(map[int32]int64), floor: make(map[int32]int64)}
	c := client(g.t, g.address,
		kgo.ConsumerGroup(readersGroup), kgo.ConsumeTopics(g.topic), kgo.DisableAutoCommit(), kgo.Balancers(balancer),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.BlockRebalanceOnPoll(), kgo.AlwaysRetryEOF(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) { m.assigned(assigned[g.topic]) }),
	)
	g.running.Go(func() {
		defer c.CloseAllowingRebalance()
		for ctx.Err() == nil {
			m.take(ctx, c, c.PollFetches(ctx).Records())
			c.AllowRebalance()
		}
	})
}

// reader is one member.
type reader struct {
	g  *readers
	mu sync.Mutex
	// By partition: where its reading must go on, and what the group had
	// committed when it was given the partition.
	next, floor map[int32]int64
}

// assigned notes from where the member has to read. It asks for the group's
// offsets after this, so what was committed by now is committed then.
func (m *reader) assigned(partitions []int32) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range partitions {
		delete(m.next, p)
		m.floor[p] = m.g.committed[p]
	}
}

// take notes records and commits them.
func (m *reader) take(ctx context.Context, c *kgo.Client, recs []*kgo.Record) {
	g := m.g
	g.mu.Lock()
	m.mu.Lock()
	for _, r := range recs {
		if next, ok := m.next[r.Partition]; ok && r.Offset != next {
			g.t.Errorf("offset %d of partition %d was read where %d was next", r.Offset, r.Partition, next)
		}
		if r.Offset < m.floor[r.Partition] {
			g.t.Errorf("offset %d of partition %d came again: %d was committed before the member was given the partition", r.Offset, r.Partition, m.floor[r.Partition])
		}
		m.next[r.Partition] = r.Offset + 1
		seen := g.seen[r.Partition]
		for int64(len(seen)) <= r.Offset {
			seen = append(seen, false)
		}
		seen[r.Offset] = true
		g.seen[r.Partition] = seen
	}
	m.mu.Unlock()
	g.mu.Unlock()
	if len(recs) == 0 || c.CommitRecords(ctx, recs...) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commits += len(recs)
	for _, r := range recs {
		g.committed[r.Partition] = max(g.committed[r.Partition], r.Offset+1)
	}
}

// change has the oldest member leave, or one more come, or both.
func (g *readers) change(rnd *rand.Rand) {
	g.mu.Lock()
	members := len(g.left)
	choice := rnd.IntN(3)
	if choice != 0 && members > 2 {
		g.left[0]()
		g.left = g.left[1:]
		members--
	}
	g.mu.Unlock()
	if choice != 1 && members < 4 {
		g.join(kgo.RangeBalancer())
	}
}

// waitForCommits waits until so many further records were read and committed.
func (g *readers) waitForCommits(n int) {
	g.t.Helper()
	g.mu.Lock()
	want := g.commits + n
	g.mu.Unlock()
	g.await("the group goes on", func() bool { return g.commits >= want })
}

func (g *readers) await(what string, holds func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		ok, state := holds(), fmt.Sprint(g.committed)
		g.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("not after %s: %s; committed is %s", patience, what, state)
		}
	}
}

// finish waits until the group has read and committed everything and ends it.
func (g *readers) finish(ends []int64) {
	g.t.Helper()
	g.await("all is committed", func() bool {
		for p, end := range ends {
			if g.committed[int32(p)] < end {
				return false
			}
		}
		return true
	})
	g.stop()
	for p, end := range ends {
		for offset, seen := range g.seen[int32(p)] {
			if !seen {
				g.t.Errorf("the group did not read offset %d of partition %d", offset, p)
				break
			}
		}
		if n := int64(len(g.seen[int32(p)])); n != end {
			g.t.Errorf("the group read partition %d up to %d, not %d", p, n, end)
		}
	}
	for p, offset := range committedOffsets(g.t, g.address, readersGroup, g.topic, g.partitions) {
		if offset != ends[p] {
			g.t.Errorf("partition %d is committed up to %d, want %d", p, offset, ends[p])
		}
	}
}

func (g *readers) stop() {
	g.mu.Lock()
	for _, leave := range g.left {
		leave()
	}
	g.left = nil
	g.mu.Unlock()
	g.running.Wait()
}
