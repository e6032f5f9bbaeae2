package raftlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/raftlog"
)

// cluster is three voters in this process, over TCP.
type cluster struct {
	t     *testing.T
	nodes []*member
}

type member struct {
	cfg    raftlog.Config
	m      *machine
	snaps  *snapshots
	ln     net.Listener
	engine atomic.Pointer[raftlog.Engine]
	run    *running
}

// newCluster makes the voters; start starts them.
func newCluster(t *testing.T, change func(*raftlog.Config)) *cluster {
	c := &cluster{t: t}
	var voters []raftlog.Voter
	var listeners []net.Listener
	for i := range 3 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		listeners = append(listeners, ln)
		voters = append(voters, raftlog.Voter{ID: protocol.NodeID(i + 1), Endpoint: ln.Addr().String()})
	}
	for i, ln := range listeners {
		n := &member{snaps: &snapshots{}, cfg: raftlog.Config{
			Dir:             t.TempDir(),
			NodeID:          protocol.NodeID(i + 1),
			DirectoryID:     protocol.UUID{byte(i + 1), 1},
			ClusterID:       "a-cluster",
			Voters:          voters,
			ElectionTimeout: 400 * time.Millisecond,
			FetchTimeout:    800 * time.Millisecond,
			FirstEntry:      firstEntry,
			Logger:          zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel).With().Int("node", i+1).Logger(),
		}}
		if change != nil {
			change(&n.cfg)
		}
		n.ln = ln
		c.nodes = append(c.nodes, n)
		go n.listen(ln)
	}
	return c
}

// listen is the listener that serves Kafka too: it takes the preface's magic
// in and hands the connection over.
func (n *member) listen(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			magic := make([]byte, len(raftlog.Preface))
			e := n.engine.Load()
			if _, err := io.ReadFull(conn, magic); err != nil || string(magic) != raftlog.Preface || e == nil {
				_ = conn.Close()
				return
			}
			e.Accept(conn)
		}()
	}
}

func (c *cluster) start(i int) {
	c.t.Helper()
	n := c.nodes[i]
	n.m = newMachine()
	n.cfg.StateMachine, n.cfg.Snapshots = n.m, n.snaps
	e, err := raftlog.Open(n.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.serve(i, e)
}

func (c *cluster) serve(i int, e *raftlog.Engine) {
	c.nodes[i].engine.Store(e)
	c.nodes[i].run = run(c.t, e)
}

// crash ends a node without a word to anybody.
func (c *cluster) crash(i int) {
	c.t.Helper()
	killed := errors.New("killed")
	c.nodes[i].engine.Load().Abort(killed)
	if err := <-c.nodes[i].run.done; !errors.Is(err, killed) {
		c.t.Errorf("Run returned %v", err)
	}
}

// leader waits for a leader among these nodes.
func (c *cluster) leader(among ...int) (int, raftlog.Leadership) {
	c.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		wake := make(chan int, len(among))
		stop := make(chan struct{})
		for _, i := range among {
			cur, changed := c.nodes[i].engine.Load().Leadership()
			if cur.Leading {
				close(stop)
				return i, cur
			}
			go func() {
				select {
				case <-changed:
					wake <- i
				case <-stop:
				}
			}()
		}
		select {
		case <-wake:
			close(stop)
		case <-limit:
			c.t.Fatal("no leader")
		}
	}
}

// propose proposes until an entry is in, as a controller that retries.
func (c *cluster) propose(text string, among ...int) int {
	c.t.Helper()
	for {
		i, cur := c.leader(among...)
		_, err := c.nodes[i].engine.Load().Propose(within(c.t), cur.Epoch, entry(cur.Epoch, text))
		if err == nil {
			return i
		}
		if !errors.Is(err, protocol.ErrNotController) && !errors.Is(err, raftlog.ErrUnknownOutcome) {
			c.t.Fatal(err)
		}
	}
}

// agree waits until these nodes have applied as much as the first of them, and
// compares the hashes over all that each applied.
func (c *cluster) agree(among ...int) {
	c.t.Helper()
	want, _ := c.nodes[among[0]].m.get()
	for _, i := range among {
		c.nodes[i].m.await(c.t, fmt.Sprintf("node %d to reach %d", i+1, want.Next), func(s machineState) bool { return s.Next >= want.Next })
		if got, _ := c.nodes[i].m.get(); got.Next == want.Next && got != want {
			c.t.Errorf("node %d has another history than node %d at %d", i+1, among[0]+1, want.Next)
		}
	}
}

func TestThreeVoters(t *testing.T) {
	c := newCluster(t, nil)
	for i := range 3 {
		c.start(i)
	}
	lead, cur := c.leader(0, 1, 2)
	for i := range 20 {
		c.propose(fmt.Sprint(i), 0, 1, 2)
	}
	c.agree(lead, 0, 1, 2)

	for i, n := range c.nodes {
		e := n.engine.Load()
		got := leading(t, e, "the leader's name", func(l raftlog.Leadership) bool { return l.Leader == cur.Leader && l.Epoch == cur.Epoch })
		st := e.Status()
		if i == lead {
			continue
		}
		if got.Leading {
			t.Errorf("node %d leads too", i+1)
		}
		if _, err := e.Propose(within(t), cur.Epoch, entry(cur.Epoch, "x")); !errors.Is(err, protocol.ErrNotController) {
			t.Errorf("node %d: Propose: %v", i+1, err)
		}
		for j, v := range st.Voters {
			if known := v.LastFetchMs != -1; known != (i == j) {
				t.Errorf("node %d knows of node %d: %+v", i+1, j+1, v)
			}
		}
	}

	// The leader knows what the others have, once their next answers are in.
	deadline := time.Now().Add(20 * time.Second)
	for {
		st := c.nodes[lead].engine.Load().Status()
		behind := slices.ContainsFunc(st.Voters, func(p raftlog.Peer) bool {
			return p.AckedIndex != st.LastIndex || p.LastFetchMs <= 0 || p.CaughtUpMs <= 0
		})
		if !behind {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %+v", st)
		}
		time.Sleep(time.Millisecond) // paces a poll, decides nothing
	}
	for _, n := range c.nodes {
		if err := n.run.end(); err != nil {
			t.Error(err)
		}
		var qs struct {
			LeaderID, LeaderEpoch int
			CurrentVoters         []any
		}
		raw, err := os.ReadFile(filepath.Join(n.cfg.Dir, "quorum-state"))
		if err == nil {
			err = json.Unmarshal(raw, &qs)
		}
		if err != nil || qs.LeaderEpoch < int(cur.Epoch) || len(qs.CurrentVoters) != 3 {
			t.Errorf("quorum-state: %s, %v", raw, err)
		}
	}
}

// TestCleanStopHandsOver has timers so long that only a hand-over can explain
// a new leader.
func TestCleanStopHandsOver(t *testing.T) {
	c := newCluster(t, func(cfg *raftlog.Config) {
		cfg.ElectionTimeout, cfg.FetchTimeout = 30*time.Second, time.Minute
	})
	for i := range 3 {
		c.start(i)
	}
	c.nodes[0].engine.Load().Lead()
	if i := c.propose("a", 0); i != 0 {
		t.Fatal(i)
	}
	c.agree(0, 1, 2)
	start := time.Now()
	if err := c.nodes[0].run.end(); err != nil {
		t.Error(err)
	}
	c.propose("b", 1, 2)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("handing over took %s", took)
	}
	c.agree(1, 2)
}

// TestFollowersAreToldOfCommits: the library would tell them with the next entry.
func TestFollowersAreToldOfCommits(t *testing.T) {
	c := newCluster(t, raftlog.Untold)
	for i := range 3 {
		c.start(i)
	}
	for i := range 5 {
		lead := c.propose(fmt.Sprint(i), 0, 1, 2)
		c.agree(lead, 0, 1, 2)
	}
}

// TestDeadLeaderIsReplacedAtOnce has timers so long that only the evidence can
// explain a new leader: the connections ended, and the port refuses.
func TestDeadLeaderIsReplacedAtOnce(t *testing.T) {
	c := newCluster(t, func(cfg *raftlog.Config) {
		cfg.ElectionTimeout, cfg.FetchTimeout = 30*time.Second, time.Minute
		cfg.FastFailureDetection = true
	})
	for i := range 3 {
		c.start(i)
	}
	c.nodes[0].engine.Load().Lead()
	if i := c.propose("a", 0); i != 0 {
		t.Fatal(i)
	}
	c.agree(0, 1, 2)
	for _, i := range []int{1, 2} {
		c.nodes[i].engine.Load().AwaitReached(t, 1)
	}
	if err := c.nodes[0].ln.Close(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.crash(0)
	c.propose("b", 1, 2)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("replacing a dead leader took %s", took)
	}
	c.agree(1, 2)
}

// TestCrashes kills the leader again and again. What was acknowledged stays.
func TestCrashes(t *testing.T) {
	c := newCluster(t, nil)
	for i := range 3 {
		c.start(i)
	}
	var acked []string
	for round := range 3 {
		for i := range 5 {
			text := fmt.Sprintf("%d/%d", round, i)
			c.propose(text, 0, 1, 2)
			acked = append(acked, text)
		}
		lead, old := c.leader(0, 1, 2)
		c.crash(lead)
		rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == lead })
		text := fmt.Sprintf("%d/without", round)
		c.propose(text, rest...)
		acked = append(acked, text)
		if _, cur := c.leader(rest...); cur.Epoch <= old.Epoch {
			t.Errorf("epoch %d after epoch %d", cur.Epoch, old.Epoch)
		}
		c.start(lead)
	}
	lead := c.propose("end", 0, 1, 2)
	c.agree(lead, 0, 1, 2)
	for i, n := range c.nodes {
		texts := n.m.texts()
		for _, text := range acked {
			if !slices.Contains(texts, text) {
				t.Errorf("node %d lacks %s, which was acknowledged", i+1, text)
			}
		}
	}
}

// badDisk fails or hangs in appends once it is told to.
type badDisk struct {
	raftlog.Database
	mode atomic.Int32 // 0 = healthy
	free chan struct{}
}

const (
	diskFails = iota + 1
	diskHangs
)

var errDisk = errors.New("input/output error")

func (d *badDisk) StoreLogs(logs []*raftlog.RaftLog) error {
	switch d.mode.Load() {
	case diskFails:
		return errDisk
	case diskHangs:
		<-d.free
	}
	return d.Database.StoreLogs(logs)
}

// TestBadDisk has the disk of the leader, or of a follower, fail or hang: the
// node ends with the reason in time, the others go on, and it comes back.
func TestBadDisk(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   int32
		leader bool
		want   string
	}{
		{"leader fails", diskFails, true, "input/output error"},
		{"leader hangs", diskHangs, true, "the disk hangs"},
		{"follower fails", diskFails, false, "input/output error"},
		{"follower hangs", diskHangs, false, "the disk hangs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, func(cfg *raftlog.Config) { cfg.StoreTimeout = time.Second })
			disks := make([]*badDisk, 3)
			for i, n := range c.nodes {
				disks[i] = &badDisk{free: make(chan struct{})}
				n.m = newMachine()
				n.cfg.StateMachine, n.cfg.Snapshots = n.m, n.snaps
				e, err := raftlog.OpenWith(n.cfg, func(db raftlog.Database) raftlog.Database {
					disks[i].Database = db
					return disks[i]
				})
				if err != nil {
					t.Fatal(err)
				}
				c.serve(i, e)
			}
			bad := c.propose("before", 0, 1, 2)
			_, cur := c.leader(bad)
			if !tt.leader {
				bad = (bad + 1) % 3
			}
			rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == bad })
			disks[bad].mode.Store(tt.mode)
			if tt.leader {
				_, err := c.nodes[bad].engine.Load().Propose(within(t), cur.Epoch, entry(cur.Epoch, "lost"))
				if !errors.Is(err, raftlog.ErrUnknownOutcome) {
					t.Errorf("Propose over a bad disk: %v", err)
				}
			} else {
				c.propose("meanwhile", rest...)
			}
			select {
			case err := <-c.nodes[bad].run.done:
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Run returned %v, want %q", err, tt.want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the node with the bad disk goes on")
			}
			c.propose("after", rest...)
			close(disks[bad].free)
			_ = disks[bad].Database.Close() // what the end of the process does
			c.start(bad)
			lead := c.propose("again", 0, 1, 2)
			c.agree(lead, 0, 1, 2)
		})
	}
}

// TestCatchesUpBySnapshot restarts a follower for which the entries are gone.
func TestCatchesUpBySnapshot(t *testing.T) {
	c := newCluster(t, func(cfg *raftlog.Config) { *cfg = raftlog.Trailing(*cfg, 1) })
	for i := range 3 {
		c.start(i)
	}
	lead := c.propose("a", 0, 1, 2)
	c.agree(lead, 0, 1, 2)
	behind := (lead + 1) % 3
	if err := c.nodes[behind].run.end(); err != nil {
		t.Error(err)
	}
	rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == behind })
	for i := range 30 {
		lead = c.propose(fmt.Sprint(i), rest...)
	}
	c.agree(append([]int{lead}, rest...)...)
	for _, i := range rest {
		if err := c.nodes[i].engine.Load().TakeSnapshot(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	c.start(behind)
	lead = c.propose("end", rest...)
	want, _ := c.nodes[lead].m.get()
	c.nodes[behind].m.await(t, "the node to catch up", func(s machineState) bool { return s.Next >= want.Next })
	if got, _ := c.nodes[behind].m.get(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := len(c.nodes[behind].m.restored); n != 1 {
		t.Errorf("%d snapshots installed", n)
	}
}

// TestSnapshotLoop is #697: node 3 has an uncommitted tail of its own over the
// index at which the others have a snapshot. Without the repair it gets the
// same snapshot hundreds of times a second, for ever.
func TestSnapshotLoop(t *testing.T) {
	c := newCluster(t, func(cfg *raftlog.Config) { cfg.Logger = cfg.Logger.Level(zerolog.WarnLevel) })
	entries := func(first, last, term uint64, with ...*raftlog.RaftLog) []*raftlog.RaftLog {
		for i := first; i <= last; i++ {
			with = append(with, &raftlog.RaftLog{Index: i, Term: term, Data: entry(protocol.ControllerEpoch(term), "x")})
		}
		return with
	}
	members := &raftlog.RaftLog{Index: 1, Term: 1, Type: raftlog.LogMembership, Data: raftlog.Members(c.nodes[0].cfg)}
	raw, _ := json.Marshal(machineState{Next: 39})
	for i, n := range c.nodes {
		var err error
		if i == 2 {
			err = raftlog.Prefill(n.cfg, 2, entries(2, 50, 2, members))
		} else {
			err = raftlog.Prefill(n.cfg, 3, entries(41, 100, 3))
			n.snaps.all = []snapshot{{raw: raw, meta: raftlog.SnapshotMeta{
				ID: "40-3", Index: 40, Term: 3, Configuration: raftlog.Members(n.cfg), ConfigurationIndex: 1, Size: int64(len(raw)),
			}}}
		}
		if err != nil {
			t.Fatal(err)
		}
		c.start(i)
	}
	lead := c.propose("healed", 0, 1)
	want, _ := c.nodes[lead].m.get()
	m := c.nodes[2].m
	m.await(t, "node 3 to be healed", func(s machineState) bool { return s.Next >= want.Next })
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != want {
		t.Errorf("%+v, want %+v", m.state, want)
	}
	// Three installs, one at the restart, and none after.
	if len(m.restored) > 4 {
		t.Errorf("%d snapshots restored", len(m.restored))
	}
}

// TestVotersMustMatch starts a node whose configuration names other voters
// than its log.
func TestVotersMustMatch(t *testing.T) {
	cfg := loneConfig(t)
	cfg.StateMachine, cfg.Snapshots = newMachine(), &snapshots{}
	l, err := raftlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, l)
	leading(t, l, "leadership", inOffice)
	_ = r.end()
	cfg.Voters = append(cfg.Voters, raftlog.Voter{ID: 2, Endpoint: "localhost:1"})
	l, err = raftlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "[1 2]") {
		t.Errorf("Run returned %v", err)
	}
}

// BenchmarkStart is from Open to leadership on a lone voter, with a log of its own.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{0, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := raftlog.Config{
				Dir: b.TempDir(), NodeID: 1, DirectoryID: protocol.UUID{1}, ClusterID: "c",
				Voters: []raftlog.Voter{{ID: 1}}, FirstEntry: firstEntry, Snapshots: &snapshots{},
			}
			members := &raftlog.RaftLog{Index: 1, Term: 1, Type: raftlog.LogMembership, Data: raftlog.Members(cfg)}
			logs := []*raftlog.RaftLog{members}
			for i := range n {
				logs = append(logs, &raftlog.RaftLog{Index: uint64(i) + 2, Term: 1, Data: entry(1, strings.Repeat("x", 100))})
			}
			if err := raftlog.Prefill(cfg, 1, logs); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				cfg.StateMachine = newMachine()
				l, err := raftlog.Open(cfg)
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- l.Run(ctx) }()
				for {
					cur, changed := l.Leadership()
					if cur.Leading {
						break
					}
					<-changed
				}
				b.StopTimer()
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// TestRunLeavesNothing counts goroutines around the life of an engine. It runs
// beside no other test.
func TestRunLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		l := (&engines{}).open(t, newMachine(), &snapshots{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		cur := leading(t, l, "leadership", inOffice)
		if _, err := l.Propose(ctx, cur.Epoch, entry(cur.Epoch, "x")); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// The library's listener and its metrics end a moment after its shutdown.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
