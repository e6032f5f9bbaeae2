//go:build integration

package clients

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/klamm/klamm/integration/harness"
)

const (
	partitions = 6
	// round is how many records are written at a time, enough that every
	// partition gets some.
	round = 120
)

// TestLife: each client creates a topic, produces with every codec, and shares
// the topic in a group of three, one of which comes later and one leaves
// earlier, over a clean restart; then the node is killed, and new members go on
// exactly where the group had committed. Every record comes, each at one
// offset, and none that was committed before a node or member went comes again.
func TestLife(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// The default waits for more members to come, which the test has
			// them do anyway.
			n := harness.Start(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4", fmt.Sprintf("num.partitions=%d", partitions))
			l := &life{t: t, client: c.client, address: n.Address, topic: "life-of." + c.name, written: map[string]bool{}}
			for i, assignor := range c.assignors {
				l.groups = append(l.groups, newFollowing(l, fmt.Sprintf("group-%d", i), assignor))
			}
			instance := ""
			if c.static {
				instance = "third"
			}

			c.client.create(t, n.Address, l.topic, partitions)
			l.produce("none")
			l.join("a", "")
			l.join("b", "")
			l.settle(2)

			produced := l.produceBeside("gzip")
			l.join("c", instance) // while records flow
			l.settle(3)
			produced()
			l.caughtUp()
			l.produce("snappy")
			l.caughtUp("a", "b", "c")

			n.Stop()
			n.Restart()
			l.produce("lz4")
			l.settle(3)
			l.caughtUp("a", "b", "c")

			if c.drops {
				l.leave("a")
				l.produce("zstd")
			} else {
				produced = l.produceBeside("zstd")
				l.leave("a")
				produced()
			}
			l.settle(2)
			l.caughtUp()

			// That b has left is on disk once the others have gone on without it.
			l.leave("b")
			l.settle(1)
			l.leave("c")
			l.produce("gzip")
			n.Kill()
			n.Restart()
			l.stillCommitted()
			l.join("c", instance) // first, and so the last to end: others may wait for a static member
			l.join("b", "")
			l.join("d", "")
			l.settle(3)
			l.caughtUp()
			l.resumed()
			l.produce("none")
			l.caughtUp("b", "c", "d")
		})
	}
}

// life is one client's topic and its groups.
type life struct {
	t       *testing.T
	client  client
	address string
	topic   string
	groups  []*following
	written map[string]bool // keys
}

// produce writes a round of records.
func (l *life) produce(codec string) {
	l.t.Helper()
	l.client.produce(l.t, l.address, l.topic, codec, l.make(codec))
}

// produceBeside does so beside the test, until what it returns returns.
func (l *life) produceBeside(codec string) (wait func()) {
	records := l.make(codec)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.client.produce(l.t, l.address, l.topic, codec, records)
	}()
	return func() {
		l.t.Helper()
		if <-done; l.t.Failed() {
			l.t.FailNow()
		}
	}
}

func (l *life) make(codec string) []record {
	var records []record
	for range round {
		value := fmt.Sprintf("value %d", len(l.written))
		r := record{Key: fmt.Sprintf("key-%d", len(l.written)), Value: &value, Header: codec}
		l.written[r.Key] = true
		records = append(records, r)
	}
	return records
}

func (l *life) join(name, instance string) {
	l.t.Helper()
	for _, f := range l.groups {
		f.members[name] = l.client.join(l.t, membership{
			address: l.address, group: f.name, topic: l.topic, assignor: f.assignor, instance: instance,
			took: func(r record) { f.took(name, r) },
		})
	}
}

// leave ends a member of each group. What the groups had committed by then must
// not come again.
func (l *life) leave(name string) {
	l.t.Helper()
	var leaving sync.WaitGroup
	for _, f := range l.groups {
		leaving.Go(f.members[name].leave)
		delete(f.members, name)
	}
	leaving.Wait()
}

// settle waits until each group is stable with so many members, which share all
// partitions.
func (l *life) settle(members int) {
	l.t.Helper()
	for _, f := range l.groups {
		state := ""
		for until := deadline(l.t, "%s has %d members that share all partitions; it is %s", f.name, members, &state); ; until.wait() {
			var ok bool
			if state, ok = f.settled(members); ok {
				break
			}
		}
	}
}

// caughtUp waits until every group has all records and has committed so; the
// named members must have got some of them each. From then on nothing of them
// may come again.
func (l *life) caughtUp(members ...string) {
	l.t.Helper()
	ends := l.ends()
	for _, f := range l.groups {
		state := ""
		for until := deadline(l.t, "%s has all: %s", f.name, &state); ; until.wait() {
			committed := f.committed()
			f.mu.Lock()
			state = fmt.Sprintf("%d of %d records seen; committed are %v of %v", len(f.seen), len(l.written), committed, ends)
			done := len(f.seen) == len(l.written) && maps.Equal(committed, ends)
			if done {
				f.floor = committed
			}
			f.mu.Unlock()
			if done {
				break
			}
		}
		f.mu.Lock()
		for _, name := range members {
			if f.by[name] == 0 {
				l.t.Errorf("%s: member %s got none of the records; the others %v", f.name, name, f.by)
			}
		}
		clear(f.by)
		for key := range f.seen {
			if !l.written[key] {
				l.t.Errorf("%s: %q came, which nobody wrote", f.name, key)
			}
		}
		f.mu.Unlock()
	}
}

// stillCommitted checks that what was committed before the node went is so now,
// and takes note of it for resumed.
func (l *life) stillCommitted() {
	l.t.Helper()
	for _, f := range l.groups {
		committed := f.committed()
		f.mu.Lock()
		if !maps.Equal(committed, f.floor) {
			l.t.Errorf("%s: after the kill %v is committed, it was %v", f.name, committed, f.floor)
		}
		f.from = committed
		clear(f.first)
		f.mu.Unlock()
	}
}

// resumed checks that the groups went on exactly there.
func (l *life) resumed() {
	l.t.Helper()
	for _, f := range l.groups {
		f.mu.Lock()
		if !maps.Equal(f.first, f.from) {
			l.t.Errorf("%s: committed was %v, the group went on from %v", f.name, f.from, f.first)
		}
		f.mu.Unlock()
	}
}

// ends are the ends of the topic's partitions.
func (l *life) ends() map[int32]int64 {
	l.t.Helper()
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = l.topic
	for p := range int32(partitions) {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		asked.Partitions = append(asked.Partitions, partition)
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	request.Topics = append(request.Topics, asked)
	c := franzClient(l.t, l.address)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := request.RequestWith(ctx, c)
	if err != nil {
		l.t.Fatalf("the ends of %s: %v", l.topic, err)
	}
	ends := make(map[int32]int64)
	for _, p := range response.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			l.t.Fatalf("the end of %s-%d: %v", l.topic, p.Partition, err)
		}
		ends[p.Partition] = p.Offset
	}
	return ends
}

// following is a group that reads a topic, and what it has seen.
type following struct {
	t              *testing.T
	address, topic string
	name, assignor string
	asking         *kgo.Client
	members        map[string]member

	mu    sync.Mutex
	seen  map[string]position // by key
	by    map[string]int      // records by member, since the last look
	floor map[int32]int64     // committed offsets; what lies below must not come again
	from  map[int32]int64     // those at which the group had to go on after the kill
	first map[int32]int64     // the lowest offsets that came since
}

type position struct {
	partition int32
	offset    int64
}

func newFollowing(l *life, name, assignor string) *following {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9) // later ones name topics by id
	f := &following{
		t: l.t, address: l.address, topic: l.topic, name: name, assignor: assignor,
		asking:  franzClient(l.t, l.address, kgo.MaxVersions(versions)),
		members: map[string]member{}, seen: map[string]position{}, by: map[string]int{}, first: map[int32]int64{}, floor: map[int32]int64{},
	}
	l.t.Cleanup(f.asking.Close)
	return f
}

// took is called by the members.
func (f *following) took(member string, r record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Offset < f.floor[r.Partition] {
		f.t.Errorf("%s: offset %d of partition %d came again to %s, %d was committed", f.name, r.Offset, r.Partition, member, f.floor[r.Partition])
	}
	at := position{r.Partition, r.Offset}
	if before, again := f.seen[r.Key]; again && before != at {
		f.t.Errorf("%s: %q is at %v and at %v", f.name, r.Key, before, at)
	}
	if want := "value " + strings.TrimPrefix(r.Key, "key-"); r.Value == nil || *r.Value != want {
		f.t.Errorf("%s: %q has the value %v, want %q", f.name, r.Key, r.Value, want)
	}
	f.seen[r.Key] = at
	f.by[member]++
	if first, ok := f.first[r.Partition]; !ok || r.Offset < first {
		f.first[r.Partition] = r.Offset
	}
}

// settled says whether the group is stable with so many members which share all
// partitions, and what it is.
func (f *following) settled(members int) (string, bool) {
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = append(request.Groups, f.name)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := request.RequestWith(ctx, f.asking)
	if err != nil {
		return err.Error(), false
	}
	g := response.Groups[0]
	var taken []int32
	shares := 0
	for _, m := range g.Members {
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(m.MemberAssignment); err != nil {
			continue // it has none yet
		}
		for _, topic := range assignment.Topics {
			taken = append(taken, topic.Partitions...)
			if len(topic.Partitions) > 0 {
				shares++
			}
		}
	}
	slices.Sort(taken)
	all := slices.Equal(taken, []int32{0, 1, 2, 3, 4, 5})
	return fmt.Sprintf("%s with %d members, of which %d have partitions, %v", g.State, len(g.Members), shares, taken),
		g.State == "Stable" && len(g.Members) == members && shares == members && all
}

// committed asks for the group's offsets, as long as it takes for its
// coordinator to be there.
func (f *following) committed() map[int32]int64 {
	f.t.Helper()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = f.name
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic = f.topic
	for p := range int32(partitions) {
		topic.Partitions = append(topic.Partitions, p)
	}
	group.Topics = append(group.Topics, topic)
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Groups = append(request.Groups, group)
	var failed error
	for until := deadline(f.t, "the offsets of %s: %v", f.name, &failed); ; until.wait() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		response, err := request.RequestWith(ctx, f.asking)
		cancel()
		if err == nil {
			err = kerr.ErrorForCode(response.Groups[0].ErrorCode)
		}
		if failed = err; err != nil {
			continue
		}
		offsets := make(map[int32]int64)
		for _, p := range response.Groups[0].Topics[0].Partitions {
			offsets[p.Partition] = p.Offset
		}
		return offsets
	}
}

// until is a wait that has an end.
type until struct {
	t      *testing.T
	end    time.Time
	format string
	args   []any
}

// deadline begins a wait for what is described; pointers among the arguments
// are looked at when it ends in vain.
func deadline(t *testing.T, format string, args ...any) *until {
	return &until{t, time.Now().Add(patience), format, args}
}

func (u *until) wait() {
	u.t.Helper()
	if time.Now().After(u.end) {
		for i, arg := range u.args {
			switch p := arg.(type) {
			case *string:
				u.args[i] = *p
			case *error:
				u.args[i] = *p
			}
		}
		u.t.Fatalf("after %s still not: "+u.format, append([]any{patience}, u.args...)...)
	}
	time.Sleep(50 * time.Millisecond)
}
