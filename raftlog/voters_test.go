package raftlog_test

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// dynamic is three voters and a fourth node that waits, and the voters of the log,
// which all of them see at once.
type dynamic struct {
	*cluster
	voters []raftlog.Voter // of all nodes
	named  atomic.Pointer[[]raftlog.Voter]
}

func newDynamic(t *testing.T, change func(*raftlog.Config)) *dynamic {
	d := &dynamic{cluster: &cluster{t: t}}
	var listeners []net.Listener
	for i := range 4 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		listeners = append(listeners, ln)
		d.voters = append(d.voters, raftlog.Voter{ID: protocol.NodeID(i + 1), DirectoryID: protocol.UUID{byte(i + 1), 1}, Endpoint: ln.Addr().String()})
	}
	d.name(0, 1, 2)
	for i, ln := range listeners {
		n := &member{snaps: &snapshots{}, ln: ln, cfg: raftlog.Config{
			Dir: t.TempDir(), NodeID: d.voters[i].ID, DirectoryID: d.voters[i].DirectoryID, ClusterID: "a-cluster",
			LogVoters:       func() []raftlog.Voter { return *d.named.Load() },
			ElectionTimeout: 400 * time.Millisecond, FetchTimeout: 800 * time.Millisecond,
			FirstEntry: firstEntry,
			Logger:     zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel).With().Int("node", i+1).Logger(),
		}}
		if i < 3 {
			n.cfg.Voters = d.voters[:3]
		}
		if change != nil {
			change(&n.cfg)
		}
		d.nodes = append(d.nodes, n)
		go n.listen(ln)
		d.start(i)
	}
	return d
}

// name says who votes.
func (d *dynamic) name(nodes ...int) {
	var voters []raftlog.Voter
	for _, i := range nodes {
		voters = append(voters, d.voters[i])
	}
	d.named.Store(&voters)
}

func (d *dynamic) engine(i int) *raftlog.Engine { return d.nodes[i].engine.Load() }

func (d *dynamic) await(what string, ok func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatal("not yet: " + what)
		}
	}
}

// A node that waits votes for nobody and knows nothing; it is fed, then it votes, and
// its vote counts.
func TestVoterIsAdded(t *testing.T) {
	d := newDynamic(t, nil)
	lead := d.propose("a", 0, 1, 2)
	if member, known := d.engine(3).IsMember(); member || !known {
		t.Error("it is a member from the start")
	}
	if m, _ := d.engine(lead).Member(d.voters[3]); m != (raftlog.Membership{}) {
		t.Errorf("before: %+v", m)
	}
	d.engine(lead).Invite(d.voters[3])
	d.await("all of the log to be there", func() bool {
		m, _ := d.engine(lead).Member(d.voters[3])
		return m.Member && m.CaughtUp
	})
	if m, _ := d.engine(lead).Member(d.voters[3]); m.Votes {
		t.Error("it votes before it is named")
	}
	d.name(0, 1, 2, 3)
	d.engine(lead).Uninvite(d.voters[3])
	d.propose("b", 0, 1, 2)
	d.await("its vote", func() bool {
		m, _ := d.engine(lead).Member(d.voters[3])
		return m.Votes && d.engine(lead).Settled()
	})
	d.crash(lead)
	left := slices.DeleteFunc([]int{0, 1, 2, 3}, func(i int) bool { return i == lead })
	d.propose("c", left...)
	d.agree(left...)
	// Three of four are needed: without one more nothing goes.
	next, cur := d.leader(left...)
	other := slices.DeleteFunc(slices.Clone(left), func(i int) bool { return i == next })[0]
	d.crash(other)
	leading(t, d.engine(next), "the end of the leadership", func(l raftlog.Leadership) bool { return !l.Leading || l.Epoch != cur.Epoch })
}

// A guest that is given up is no member any more, and can be invited again.
func TestGuestIsGivenUp(t *testing.T) {
	d := newDynamic(t, nil)
	lead := d.propose("a", 0, 1, 2)
	for range 2 {
		d.engine(lead).Invite(d.voters[3])
		d.await("it to be fed", func() bool { m, _ := d.engine(lead).Member(d.voters[3]); return m.Member })
		d.engine(lead).Uninvite(d.voters[3])
		d.await("it to be left", func() bool { m, _ := d.engine(lead).Member(d.voters[3]); return !m.Member })
	}
	d.propose("b", 0, 1, 2)
	d.agree(lead, 0, 1, 2)
}

// A leader that is named no more hands over, with timers so long that nothing else
// explains another leader; it stays out after a restart.
func TestLeaderIsRemoved(t *testing.T) {
	d := newDynamic(t, func(cfg *raftlog.Config) {
		cfg.ElectionTimeout, cfg.FetchTimeout = 30*time.Second, time.Minute
	})
	d.engine(0).Lead()
	if i := d.propose("a", 0); i != 0 {
		t.Fatal(i)
	}
	d.agree(0, 1, 2)
	_, before := d.leader(0)
	d.name(1, 2)
	d.propose("b", 0) // wakes whoever looks at the voters
	next, cur := d.leader(1, 2)
	if cur.Epoch != before.Epoch+1 {
		t.Errorf("epoch %d after %d", cur.Epoch, before.Epoch)
	}
	d.await("the members to be the voters", func() bool {
		m, _ := d.engine(next).Member(d.voters[0])
		return !m.Member && d.engine(next).Settled()
	})
	d.propose("c", 1, 2)
	if err := d.nodes[0].run.end(); err != nil {
		t.Error(err)
	}
	d.start(0)
	// It stands for election, as far as it knows of its removal or not: nobody votes
	// for it, and nobody is disturbed.
	d.await("it to run", func() bool { _, known := d.engine(0).IsMember(); return known })
	d.engine(0).Lead()
	d.propose("d", 1, 2)
	if l, _ := d.engine(0).Leadership(); l.Leading {
		t.Error("it leads")
	}
	if _, now := d.leader(1, 2); now.Epoch != cur.Epoch {
		t.Errorf("epoch %d after %d", now.Epoch, cur.Epoch)
	}
}

// A hand-over that fails leaves nothing behind, whether the leadership stays (B063 of
// package integration/faults) or is lost in the middle (B062): the same node leads
// again and takes entries. The library has refused them for ever after one.
func TestFailedHandOver(t *testing.T) {
	const (
		stays = "the leadership stays"
		alone = "no majority is left"
		other = "another is elected"
	)
	for _, name := range []string{stays, alone, other} {
		t.Run(name, func(t *testing.T) {
			d := newDynamic(t, nil)
			lead := d.propose("a", 0, 1, 2)
			rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == lead })
			d.crash(rest[0])
			if name == alone {
				d.crash(rest[1])
			}
			handed := make(chan struct{})
			go func() {
				defer close(handed)
				d.engine(lead).HandTo(d.voters[rest[0]].ID)
			}()
			if name == other {
				d.engine(rest[1]).Lead()
			}
			<-handed
			d.start(rest[0])
			if name == alone {
				d.start(rest[1])
			}
			d.propose("b", 0, 1, 2)
			d.agree(0, 1, 2)
			d.await("the same node to lead again", func() bool {
				if l, _ := d.engine(lead).Leadership(); l.Leading {
					return true
				}
				if d.engine(lead).HasLeader() {
					d.engine(lead).Lead()
					time.Sleep(50 * time.Millisecond)
				}
				return false
			})
			d.propose(fmt.Sprint("by ", lead), lead)
			d.agree(0, 1, 2)
		})
	}
}
