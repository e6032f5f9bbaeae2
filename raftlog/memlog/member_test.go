package memlog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog/memlog"
)

// quorum is members that are taken through steps.
type quorum struct {
	ctx     context.Context
	members []*memlog.Member
	lists   []*list
	disks   []*memlog.Disk
	stop    []context.CancelFunc
	next    int
	sure    []string // proposals that were answered as committed
}

// step is one step of member a, or of one that leads, with those whose bit is set
// in reached.
type step struct {
	do      string
	a       int
	leader  bool
	reached int
	most    int
	heard   bool
}

func newQuorum(ctx context.Context, n int) *quorum {
	q := &quorum{
		ctx: ctx, members: make([]*memlog.Member, n), lists: make([]*list, n),
		disks: make([]*memlog.Disk, n), stop: make([]context.CancelFunc, n),
	}
	for i := range n {
		q.disks[i] = &memlog.Disk{}
		q.start(i)
	}
	return q
}

func (q *quorum) start(i int) {
	q.lists[i] = &list{}
	m := memlog.NewMember(memlog.Config{
		NodeID: protocol.NodeID(i), StateMachine: q.lists[i], Disk: q.disks[i],
		FirstEntry: func(epoch protocol.ControllerEpoch) []byte { return fmt.Appendf(nil, "first %d", epoch) },
	}, len(q.members))
	ctx, cancel := context.WithCancel(q.ctx)
	q.members[i], q.stop[i] = m, cancel
	go func() { _ = m.Run(ctx) }()
	synctest.Wait()
}

func (q *quorum) take(s step) {
	m := q.members[s.a]
	if s.leader {
		if i := slices.IndexFunc(q.members, (*memlog.Member).Leads); i >= 0 {
			m = q.members[i]
		}
	}
	var reached []*memlog.Member
	for i, other := range q.members {
		if other != m && s.reached&(1<<i) != 0 {
			reached = append(reached, other)
		}
	}
	switch s.do {
	case "elect":
		m.Elect(reached...)
	case "replicate":
		for _, other := range reached {
			m.Replicate(other, s.most, s.heard)
		}
	case "propose":
		q.propose(m)
	case "append":
		m.Append()
	case "step down":
		m.StepDown()
	case "restart":
		q.stop[s.a]()
		synctest.Wait()
		q.start(s.a)
	}
	synctest.Wait()
}

func (q *quorum) propose(m *memlog.Member) {
	cur, _ := m.Leadership()
	q.next++
	text := fmt.Sprintf("entry %d", q.next)
	go func() {
		if _, err := m.Propose(q.ctx, cur.Epoch, []byte(text)); err == nil {
			q.sure = append(q.sure, text)
		}
	}()
}

// wrong says what of Raft's promise does not hold: all apply the same, one leads
// an epoch, and what was answered as committed is there.
func (q *quorum) wrong() string {
	var longest []string
	for _, l := range q.lists {
		if len(l.got) > len(longest) {
			longest = l.got
		}
	}
	offices := map[protocol.ControllerEpoch]int{}
	for i, l := range q.lists {
		if !slices.Equal(l.got, longest[:len(l.got)]) {
			return fmt.Sprintf("member %d applied %v, another %v", i, l.got, longest)
		}
		cur, _ := q.members[i].Leadership()
		if !cur.Leading {
			continue
		}
		if first := fmt.Sprintf("first %d@%d", cur.Epoch, cur.Epoch); !slices.Contains(l.got, first) {
			return fmt.Sprintf("member %d is in office in epoch %d and has not applied its first entry", i, cur.Epoch)
		}
		if other, ok := offices[cur.Epoch]; ok {
			return fmt.Sprintf("members %d and %d are in office in epoch %d", other, i, cur.Epoch)
		}
		offices[cur.Epoch] = i
	}
	for _, text := range q.sure {
		for i, m := range q.members {
			got := slices.ContainsFunc(q.lists[i].got, func(got string) bool { return strings.HasPrefix(got, text+"@") })
			if cur, _ := m.Leadership(); cur.Leading && !got && q.newest(cur.Epoch) {
				return fmt.Sprintf("%q was answered as committed, and the leader %d has not applied it: %v", text, i, q.lists[i].got)
			}
		}
	}
	return ""
}

// newest tells whether nobody knows a later epoch than this one.
func (q *quorum) newest(epoch protocol.ControllerEpoch) bool {
	return !slices.ContainsFunc(q.members, func(m *memlog.Member) bool { return m.Term() > uint64(epoch) })
}

func TestMembers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{1, 3, 5}).Draw(rt, "members")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				// The likelier ones come more than once.
				do: rapid.SampledFrom([]string{
					"elect", "replicate", "replicate", "replicate", "replicate", "propose", "propose", "append", "append", "step down", "restart",
				}).Draw(rt, "do"),
				a: rapid.IntRange(0, n-1).Draw(rt, "a"), leader: rapid.Bool().Draw(rt, "leader"),
				reached: rapid.IntRange(0, 1<<n-1).Draw(rt, "reached"),
				most:    rapid.IntRange(0, 3).Draw(rt, "most"), heard: rapid.Bool().Draw(rt, "heard"),
			}
		}), 50, 200).Draw(rt, "steps")
		var wrong string
		synctest.Test(t, func(*testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			q := newQuorum(ctx, n)
			for i, s := range steps {
				q.take(s)
				if wrong = q.wrong(); wrong != "" {
					wrong = fmt.Sprintf("after step %d, %+v: %s", i, s, wrong)
					break
				}
			}
			cancel()
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
