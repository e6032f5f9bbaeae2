package raftlog

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// listed is a SnapshotStore that has descriptions only.
type listed []SnapshotMeta

func (l listed) Create(SnapshotMeta) (SnapshotSink, error) { return nowhere{}, nil }
func (l listed) List() ([]SnapshotMeta, error)             { return l, nil }
func (l listed) Open(string) (SnapshotMeta, io.ReadCloser, error) {
	return SnapshotMeta{}, nil, os.ErrNotExist
}

// nowhere is a sink, and a state of no bytes.
type nowhere struct{ SnapshotSink }

func (nowhere) Close() error                     { return nil }
func (nowhere) WriteTo(io.Writer) (int64, error) { return 0, nil }
func (nowhere) Release()                         {}

// inheriting gives a lone voter a state to begin with.
func inheriting(c *Config) {
	c.Voters = c.Voters[:1]
	c.Inherited = func() (Snapshot, error) { return nowhere{}, nil }
}

// TestQuorumState has the bytes that a Kafka 4.4 controller wrote.
func TestQuorumState(t *testing.T) {
	const kafka = `{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`
	dir := t.TempDir()
	if _, ok, err := readQuorumState(dir); ok || err != nil {
		t.Errorf("without a file: %t, %v", ok, err)
	}
	if err := newQuorumState(1, 1, []Voter{{ID: 1}}).write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, quorumStateFile))
	if err != nil || string(raw) != kafka {
		t.Errorf("wrote %s, %v\nwant  %s", raw, err, kafka)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	for _, tt := range []struct {
		text  string
		epoch protocol.ControllerEpoch
		bad   string
	}{
		{text: kafka, epoch: 1},
		{text: `{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`, epoch: 7},
		{text: strings.Replace(kafka, `"data_version":0`, `"data_version":99`, 1), bad: "unknown data_version 99"},
		{text: kafka[:40], bad: quorumStateFile + " is damaged"},
		{text: "", bad: quorumStateFile},
	} {
		if err := os.WriteFile(filepath.Join(dir, quorumStateFile), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		qs, _, err := readQuorumState(dir)
		switch {
		case tt.bad != "":
			if err == nil || !strings.Contains(err.Error(), tt.bad) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v, want %q", tt.text, err, tt.bad)
			}
		case err != nil || qs.LeaderEpoch != tt.epoch:
			t.Errorf("%s: %+v, %v", tt.text, qs, err)
		}
	}
}

func bootConfig(dir string) Config {
	return Config{
		Dir: dir, NodeID: 1, DirectoryID: protocol.UUID{1}, ClusterID: "c",
		Voters: []Voter{{ID: 1}, {ID: 2, Endpoint: "h:1"}},
	}
}

// boot runs bootstrap over a database.
func boot(t *testing.T, cfg Config, db database, snaps listed) (*stableStore, error) {
	t.Helper()
	logs := newLogStore(db, time.Second, newFailure())
	stable, err := openStableStore(logs)
	if err != nil {
		t.Fatal(err)
	}
	return stable, bootstrap(&cfg, logs, stable, &snapshotStore{store: snaps})
}

func TestBootstrap(t *testing.T) {
	db, cfg := newFakeDB(), bootConfig(t.TempDir())
	for range 2 { // the second changes nothing
		stable, err := boot(t, cfg, db, nil)
		if err != nil {
			t.Fatal(err)
		}
		if term, _ := stable.current(); term != 1 {
			t.Errorf("term %d", term)
		}
	}
	if len(db.writes) != 2 { // and the entry
		t.Errorf("writes %v", db.writes)
	}
	var entry raft.Log
	if err := db.GetLog(1, &entry); err != nil || entry.Term != 1 || entry.Type != raft.LogConfiguration {
		t.Fatalf("first entry %+v, %v", entry, err)
	}
	got := raft.DecodeConfiguration(entry.Data).Servers
	if len(got) != 2 || got[1] != (raft.Server{Suffrage: raft.Voter, ID: "2", Address: "2"}) {
		t.Errorf("members %+v", got)
	}
}

// TestBootstrapAfterCrash dies after each write of a bootstrap.
func TestBootstrapAfterCrash(t *testing.T) {
	for n := range 3 {
		db, cfg := newFakeDB(), bootConfig(t.TempDir())
		stop := &stopAfter{fakeDB: db, n: n}
		if _, err := boot(t, cfg, stop, nil); err == nil {
			t.Fatal("was not stopped")
		}
		stable, err := boot(t, cfg, db, nil)
		if err != nil {
			t.Fatalf("after %d writes: %v", n, err)
		}
		term, _ := stable.current()
		if last, _ := db.LastIndex(); last != 1 || term != 1 {
			t.Errorf("after %d writes: last index %d, term %d", n, last, term)
		}
	}
}

// stopAfter lets n writes through.
type stopAfter struct {
	*fakeDB
	n int
}

func (s *stopAfter) count() error {
	if s.n--; s.n < 0 {
		return io.ErrClosedPipe
	}
	return nil
}

func (s *stopAfter) Set(k, v []byte) error {
	if err := s.count(); err != nil {
		return err
	}
	return s.fakeDB.Set(k, v)
}

func (s *stopAfter) SetUint64(k []byte, v uint64) error {
	if err := s.count(); err != nil {
		return err
	}
	return s.fakeDB.SetUint64(k, v)
}

func (s *stopAfter) StoreLog(l *raft.Log) error {
	if err := s.count(); err != nil {
		return err
	}
	return s.fakeDB.StoreLog(l)
}

func TestBootstrapRefuses(t *testing.T) {
	snap := listed{{ID: "s", Index: 9, Term: 2}}
	for _, tt := range []struct {
		name   string
		change func(cfg *Config)
		epoch  protocol.ControllerEpoch // in quorum-state; 0 = no file
		fresh  bool
		snaps  listed
		want   string // "" = goes on
		term   uint64
	}{
		{name: "as it was", epoch: 1, term: 1},
		{name: "another node", change: func(c *Config) { c.NodeID = 2 }, want: "is of node 1"},
		{name: "another directory", change: func(c *Config) { c.DirectoryID[1] = 1 }, want: "is of node 1"},
		{name: "another cluster", change: func(c *Config) { c.ClusterID = "d" }, want: "cluster c"},
		{name: "an old copy", epoch: 2, want: "its votes are lost"},
		{name: "a lost store", fresh: true, epoch: 1, term: 1},
		{name: "a lost store of a used directory", fresh: true, epoch: 5, want: "its votes are lost"},
		{name: "a directory taken over from Kafka", fresh: true, epoch: 5, change: func(c *Config) { c.SeedEpoch = 5 }, term: 5},
		{name: "a lost store beside snapshots", fresh: true, snaps: snap, want: "its votes are lost"},
		{name: "a directory that Kafka has left", fresh: true, epoch: 5, change: inheriting, term: 5},
		{name: "a lost store of a lone voter", fresh: true, epoch: 5, change: func(c *Config) {
			inheriting(c)
			if err := mark(c.Dir); err != nil {
				t.Fatal(err)
			}
		}, want: "raft.db is gone"},
		{name: "the same after a crash in between", fresh: true, epoch: 5, snaps: listed{{ID: "s", Index: 1, Term: 1}}, change: inheriting, term: 5},
		{name: "a lost store beside snapshots of what Kafka has left", fresh: true, epoch: 5, snaps: snap, change: inheriting, want: "its votes are lost"},
		{name: "nothing is left", fresh: true, epoch: 5, change: func(c *Config) { c.Inherited = func() (Snapshot, error) { return nil, nil } }, want: "its votes are lost"},
		{name: "a new directory with a seed", fresh: true, change: func(c *Config) { c.SeedEpoch = 8 }, term: 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db, cfg := newFakeDB(), bootConfig(t.TempDir())
			if !tt.fresh {
				if _, err := boot(t, cfg, db, nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.epoch > 0 {
				if err := newQuorumState(1, tt.epoch, cfg.Voters).write(cfg.Dir); err != nil {
					t.Fatal(err)
				}
			}
			if tt.change != nil {
				tt.change(&cfg)
			}
			stable, err := boot(t, cfg, db, tt.snaps)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if term, _ := stable.current(); term != tt.term {
				t.Errorf("term %d, want %d", term, tt.term)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	for _, tt := range []struct {
		name        string
		first, last uint64
		term        uint64 // of all entries
		snaps       listed
		repaired    bool
		want        uint64 // last index afterwards
		broken      string
	}{
		{name: "empty"},
		{name: "no snapshot", first: 1, last: 10, term: 1, want: 10},
		{name: "agrees", first: 1, last: 50, term: 3, snaps: listed{{Index: 40, Term: 3}}, want: 50},
		{name: "differs", first: 1, last: 50, term: 2, snaps: listed{{Index: 40, Term: 3}}, repaired: true},
		{name: "only the newest counts", first: 1, last: 50, term: 2, snaps: listed{{Index: 40, Term: 2}, {Index: 30, Term: 1}}, want: 50},
		{name: "behind", first: 1, last: 30, term: 2, snaps: listed{{Index: 40, Term: 3}}, want: 30},
		{name: "follows", first: 41, last: 50, term: 3, snaps: listed{{Index: 40, Term: 3}}, want: 50},
		{name: "does not follow", first: 42, last: 50, term: 3, snaps: listed{{Index: 40, Term: 3}}, want: 50, broken: "entry 41"},
		{name: "a lost snapshot", first: 41, last: 50, term: 3, want: 50, broken: "entry 1,"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := newFakeDB()
			for i := tt.first; i <= tt.last && i > 0; i++ {
				if err := db.StoreLog(&raft.Log{Index: i, Term: tt.term}); err != nil {
					t.Fatal(err)
				}
			}
			db.writes = nil
			logs, snaps := newLogStore(db, time.Second, newFailure()), &snapshotStore{store: tt.snaps}
			repaired, err := repairLog(logs, snaps)
			last, _ := db.LastIndex()
			if err != nil || repaired != tt.repaired || last != tt.want {
				t.Errorf("repaired %t, last %d, %v", repaired, last, err)
			}
			err = checkConnected(logs, snaps)
			if (err == nil) != (tt.broken == "") || (err != nil && !strings.Contains(err.Error(), tt.broken)) {
				t.Errorf("connected: %v, want %q", err, tt.broken)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	good := func() Config {
		c := bootConfig("")
		c.StateMachine, c.Snapshots = struct{ StateMachine }{}, listed{}
		c.FirstEntry = func(protocol.ControllerEpoch) []byte { return nil }
		c.setDefaults()
		return c
	}
	for _, tt := range []struct {
		want   string
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"are needed", func(c *Config) { c.FirstEntry = nil }},
		{"not among the voters", func(c *Config) { c.Voters = c.Voters[1:] }},
		{"named twice", func(c *Config) { c.Voters = append(c.Voters, c.Voters[0]) }},
		{"no endpoint", func(c *Config) { c.Voters[1].Endpoint = "" }},
		{"negative", func(c *Config) { c.Voters[1].ID = -1 }},
		{"no directory id", func(c *Config) { c.DirectoryID = protocol.ZeroUUID }},
		{"all voters have directory ids or none", func(c *Config) { c.Voters[1].DirectoryID = protocol.UUID{1} }},
		{"there are no voters", func(c *Config) { c.Voters = nil }},
		{"", func(c *Config) { c.Voters, c.LogVoters = nil, func() []Voter { return nil } }},
		{"255", func(c *Config) { c.ClusterID = strings.Repeat("x", 256) }},
	} {
		c := good()
		tt.change(&c)
		err := c.validate()
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	c := good()
	c.FetchTimeout, c.ElectionTimeout = 2*time.Second, time.Second
	lib := c.library(serverID(c.NodeID), nil)
	if err := raft.ValidateConfig(lib); err != nil {
		t.Error(err)
	}
	if lib.HeartbeatTimeout != time.Second || lib.LeaderLeaseTimeout != time.Second || lib.MaxAppendEntries != 16 ||
		lib.TrailingLogs < 10240 || lib.PreVoteDisabled || lib.RestoreCommittedLogs || lib.BatchApplyCh {
		t.Errorf("%+v", lib)
	}
}

func TestLogLevels(t *testing.T) {
	var out bytes.Buffer
	l := newRaftLogger(zerolog.New(&out).Level(zerolog.InfoLevel)).Named("net").With("peer", 2)
	if l.IsInfo() || l.IsDebug() || !l.IsWarn() || !l.IsError() || l.GetLevel() != hclog.Warn {
		t.Error("levels are not one lower")
	}
	l.Info("entering follower state")
	l.Warn("heartbeat timeout reached", "last-leader-addr", raft.ServerAddress("1"), "took", hclog.Fmt("%d ms", 7))
	l.Error("failed to heartbeat to", "error", io.EOF, "odd")
	want := `{"level":"info","source":"net","peer":"2","last-leader-addr":"1","took":"7 ms","message":"heartbeat timeout reached"}
{"level":"warn","source":"net","peer":"2","error":"EOF","message":"failed to heartbeat to"}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestOffice(t *testing.T) {
	o := newOffice()
	_, changed := o.current()
	o.heard(true)
	_, word := o.listen()
	select {
	case <-changed:
		t.Error("leadership was published before office was taken")
	default:
	}
	if !o.take(word, Leadership{Leading: true, Epoch: 3, Leader: 1}) || !o.holds(3) || o.holds(4) {
		t.Error("office was not taken")
	}
	<-changed
	o.follow(2, 3)
	if !o.holds(3) {
		t.Error("a leader came to follow")
	}
	o.heard(false)
	if o.holds(3) {
		t.Error("the loss was not published at once")
	}
	// Lost and won again before anybody looked.
	o.heard(true)
	if o.take(word, Leadership{Leading: true, Epoch: 3, Leader: 1}) {
		t.Error("office was taken on an old word")
	}
	// The library waits until its word is heard, whoever looks and when.
	for i := range 1000 {
		o.heard(i%2 == 0)
	}
	if leading, n := o.listen(); leading || n != word+1002 {
		t.Errorf("leading %t, word %d", leading, n)
	}
}

// A dynamic quorum's quorum-state is Kafka's version 1, and its voter is this
// directory or nobody.
func TestDynamicQuorum(t *testing.T) {
	dir := t.TempDir()
	own := Voter{ID: 1, DirectoryID: protocol.NewUUID()}
	if err := newQuorumState(1, 3, []Voter{own}).write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, quorumStateFile))
	if want := `{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`; err != nil || string(raw) != want {
		t.Errorf("%s %v, want %s", raw, err, want)
	}
	if qs, ok, err := readQuorumState(dir); err != nil || !ok || qs.LeaderEpoch != 3 {
		t.Errorf("read back: %+v %v %v", qs, ok, err)
	}
	cfg := Config{
		NodeID: 1, DirectoryID: protocol.NewUUID(), Voters: []Voter{own},
		StateMachine: noMachine{}, Snapshots: listed{}, FirstEntry: func(protocol.ControllerEpoch) []byte { return nil },
	}
	if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("another directory's voter: %v", err)
	}
}

type noMachine struct{ StateMachine }
