//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm/klamm/integration/harness"
)

// followers are members of a group that read a topic and commit what they have
// read, and what they know of it together.
type followers struct {
	t     *testing.T
	topic string

	mu        sync.Mutex
	seen      map[string]int  // how often each record came
	committed map[int32]int64 // by partition
	floor     map[int32]int64 // what must not come again
	members   sync.WaitGroup
}

// member reads until ctx ends.
func (f *followers) member(ctx context.Context, address, group string, opts ...kgo.Opt) {
	c := client(f.t, address, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(f.topic), kgo.DisableAutoCommit(), kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
	}, opts...)...)
	f.members.Add(1)
	go func() {
		defer f.members.Done()
		defer c.CloseAllowingRebalance()
		for ctx.Err() == nil {
			fetches := c.PollFetches(ctx)
			f.take(ctx, c, fetches.Records())
			c.AllowRebalance()
		}
	}()
}

// take notes records and commits them.
func (f *followers) take(ctx context.Context, c *kgo.Client, recs []*kgo.Record) {
	f.mu.Lock()
	for _, r := range recs {
		if r.Offset < f.floor[r.Partition] {
			f.t.Errorf("offset %d of partition %d came again, %d was committed", r.Offset, r.Partition, f.floor[r.Partition])
		}
		f.seen[string(r.Value)]++
	}
	f.mu.Unlock()
	if len(recs) == 0 || c.CommitRecords(ctx, recs...) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range recs {
		f.committed[r.Partition] = max(f.committed[r.Partition], r.Offset+1)
	}
}

// waitFor waits until so many records were seen and committed.
func (f *followers) waitFor(n int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		seen, committed := len(f.seen), int64(0)
		for _, offset := range f.committed {
			committed += offset
		}
		f.mu.Unlock()
		if seen >= n && committed >= int64(n) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d of %d records came, offsets of %d were committed", seen, n, committed)
		}
	}
}

// Three members share a topic, one of them comes later and one leaves; the node
// is killed in between. Every record comes, and none that was committed before
// the kill comes again.
func TestGroupOfThreeOutlivesAKill(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative": kgo.CooperativeStickyBalancer()} {
		t.Run(name, func(t *testing.T) {
			n := harness.Start(t, "group.initial.rebalance.delay.ms=0")
			const partitions, round = 6, 600
			createTopic(t, n.Address, "shared", partitions)
			produce := func(from int) {
				c := client(t, n.Address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				for i := range round {
					r := &kgo.Record{Topic: "shared", Partition: int32(i % partitions), Value: fmt.Append(nil, from+i)}
					if err := c.ProduceSync(within(t, 30*time.Second), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			f := &followers{t: t, topic: "shared", seen: map[string]int{}, committed: map[int32]int64{}, floor: map[int32]int64{}}
			ctx, cancel := context.WithCancel(context.Background())
			leaving, leave := context.WithCancel(ctx)
			defer f.members.Wait()
			defer leave()
			defer cancel()
			produce(0)
			f.member(ctx, n.Address, "g", kgo.Balancers(balancer))
			f.member(leaving, n.Address, "g", kgo.Balancers(balancer))
			f.waitFor(round)
			f.member(ctx, n.Address, "g", kgo.Balancers(balancer))
			produce(round)
			f.waitFor(2 * round)

			n.Kill()
			f.mu.Lock()
			f.floor = maps.Clone(f.committed)
			f.mu.Unlock()
			n.Restart()
			produce(2 * round)
			f.waitFor(3 * round)
			leave()
			produce(3 * round)
			f.waitFor(4 * round)
			cancel()
			f.members.Wait()

			// All is committed, and read back so.
			n.Kill()
			n.Restart()
			for partition, offset := range committedOffsets(t, n.Address, "g", "shared", partitions) {
				if want := int64(4 * round / partitions); offset != want {
					t.Errorf("partition %d is committed up to %d, want %d", partition, offset, want)
				}
			}
		})
	}
}

// committedOffsets asks for a group's offsets, as long as it takes for its
// coordinator to be there.
func committedOffsets(t *testing.T, address, group, topic string, partitions int32) map[int32]int64 {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	asked := kmsg.NewOffsetFetchRequestGroupTopic()
	asked.Topic = topic
	for p := range partitions {
		asked.Partitions = append(asked.Partitions, p)
	}
	g.Topics = append(g.Topics, asked)
	req.Groups = append(req.Groups, g)
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9) // later ones name topics by id
	c := client(t, address, kgo.MaxVersions(versions))
	ctx := within(t, 30*time.Second)
	for {
		resp, err := req.RequestWith(ctx, c)
		if err == nil {
			err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
		}
		if err != nil {
			if ctx.Err() != nil {
				t.Fatalf("offsets of %s: %v", group, err)
			}
			time.Sleep(50 * time.Millisecond)
			continue
		}
		offsets := make(map[int32]int64)
		for _, p := range resp.Groups[0].Topics[0].Partitions {
			offsets[p.Partition] = p.Offset
		}
		return offsets
	}
}
