package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/klamm/klamm/protocol"
)

// Voter is one controller of the quorum.
type Voter struct {
	ID          protocol.NodeID
	DirectoryID protocol.UUID // zero in a static quorum
	Endpoint    string        // host:port of its controller listener
}

// Config is what an engine is made from. Zero durations and counts take their
// defaults.
type Config struct {
	// Dir is the metadata log's directory, …/__cluster_metadata-0. It exists.
	Dir string
	// NodeID, DirectoryID and ClusterID are this node's identity, from meta.properties.
	NodeID      protocol.NodeID
	DirectoryID protocol.UUID
	ClusterID   string
	// Voters are the controllers: those of a static quorum, this node among them
	// (controller.quorum.voters), or those that a dynamic one begins with (the
	// directory was formatted with them). Without this node among them it waits, as
	// an observer, for a leader that takes it in.
	Voters []Voter
	// LogVoters gives the voters that the metadata log has as of now, none as long as
	// the quorum is static. Raft's membership is led to follow them. It is called
	// often, by many; nil is a static quorum for good.
	LogVoters func() []Voter

	// ElectionTimeout is how long a candidate waits for votes
	// (controller.quorum.election.timeout.ms, 1 s).
	ElectionTimeout time.Duration
	// FetchTimeout is Kafka's bound for a leader without followers
	// (controller.quorum.fetch.timeout.ms, 2 s). Half of it, but no more than
	// ElectionTimeout, is how long a follower waits for a leader, and a leader
	// for its followers. Shorter finds a dead leader sooner; a follower's fsync
	// or the restore of a snapshot must stay under it, or a living one falls.
	FetchTimeout time.Duration
	// StoreTimeout is how long a write to Raft's store may take before the
	// process is better off dead (4 s). A slow disk shorter than this costs
	// latency, longer than this an election.
	StoreTimeout time.Duration
	// FastFailureDetection has a leader replaced at once whose process is seen
	// to be gone (evidence.go), where it takes a timeout otherwise.
	FastFailureDetection bool
	// SnapshotEntries is after how many entries a snapshot is taken even if
	// nobody asks for one (4096, which is half an hour of an idle cluster's
	// NoOps). A start replays up to so many; fewer start faster and write more.
	SnapshotEntries uint64
	// SeedEpoch is the controller epoch below which no leader of a new log may
	// begin: that of the Kafka quorum whose metadata is taken over.
	SeedEpoch protocol.ControllerEpoch

	// Inherited gives the state that a new log of a lone voter begins with, where
	// there is one: what a Kafka controller has left. Nil, or a nil Snapshot, for
	// none.
	Inherited func() (Snapshot, error)

	StateMachine StateMachine
	Snapshots    SnapshotStore
	// FirstEntry makes the first entry of a leadership of this node: the state
	// machine must give it an offset, not skip it.
	FirstEntry func(protocol.ControllerEpoch) []byte
	// Dial connects to a voter's endpoint, TLS included; plain TCP if nil.
	Dial   func(ctx context.Context, endpoint string) (net.Conn, error)
	Logger zerolog.Logger

	trailing uint64        // trailingEntries, fewer in tests
	untold   time.Duration // for how long the library may leave followers in the dark; its own default, longer in tests
}

// trailingEntries stay in the log behind a snapshot: what a restarted follower
// needs to catch up by entries, and repairLog to compare.
const trailingEntries = 10240

// rpcTimeout bounds one RPC. A stopped peer holds its replication goroutine
// that long after it goes on.
const rpcTimeout = 2 * time.Second

// appendEntriesMax bounds the entries in one RPC: entries of 1 MiB are held in
// memory on both sides.
const appendEntriesMax = 16

func (c *Config) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.ElectionTimeout, time.Second)
	def(&c.FetchTimeout, 2*time.Second)
	def(&c.StoreTimeout, 4*time.Second)
	if c.SnapshotEntries == 0 {
		c.SnapshotEntries = 4096
	}
	if c.trailing == 0 {
		c.trailing = trailingEntries
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, endpoint string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", endpoint)
		}
	}
}

func (c *Config) validate() error {
	if c.StateMachine == nil || c.Snapshots == nil || c.FirstEntry == nil {
		return errors.New("raftlog: a state machine, a snapshot store and a first entry are needed")
	}
	if c.DirectoryID == protocol.ZeroUUID {
		return errors.New("raftlog: no directory id")
	}
	if len(c.ClusterID) > 255 {
		return fmt.Errorf("raftlog: the cluster id has %d bytes, at most 255 are possible", len(c.ClusterID))
	}
	seen := make(map[protocol.NodeID]bool)
	for _, v := range c.Voters {
		if v.ID < 0 {
			return fmt.Errorf("raftlog: voter id %d is negative", v.ID)
		}
		if seen[v.ID] {
			return fmt.Errorf("raftlog: voter %d is named twice", v.ID)
		}
		seen[v.ID] = true
		if v.Endpoint == "" && v.ID != c.NodeID {
			return fmt.Errorf("raftlog: voter %d has no endpoint", v.ID)
		}
		if (v.DirectoryID == protocol.ZeroUUID) != c.static() {
			return errors.New("raftlog: either all voters have directory ids or none has")
		}
		if v.DirectoryID != protocol.ZeroUUID && v.ID == c.NodeID && v.DirectoryID != c.DirectoryID {
			return fmt.Errorf("raftlog: voter %d has directory %s, and this is %s: the metadata log belongs to another directory", v.ID, v.DirectoryID, c.DirectoryID)
		}
	}
	if c.static() && !seen[c.NodeID] {
		return fmt.Errorf("raftlog: node %d is not among the voters", c.NodeID)
	}
	if len(c.Voters) == 0 && c.LogVoters == nil {
		return errors.New("raftlog: there are no voters")
	}
	return nil
}

// static tells whether the quorum begins as a static one.
func (c *Config) static() bool {
	return len(c.Voters) > 0 && c.Voters[0].DirectoryID == protocol.ZeroUUID
}

// initial tells whether this node is a voter from the beginning.
func (c *Config) initial() bool {
	return slices.ContainsFunc(c.Voters, func(v Voter) bool { return v.ID == c.NodeID })
}

// membership is the quorum as Raft's configuration.
func (c *Config) membership() raft.Configuration {
	var out raft.Configuration
	for _, v := range c.Voters {
		id := v.peer().server()
		out.Servers = append(out.Servers, raft.Server{Suffrage: raft.Voter, ID: id, Address: raft.ServerAddress(id)})
	}
	return out
}

// library is the configuration of hashicorp/raft.
func (c *Config) library(own raft.ServerID, notify chan<- bool) *raft.Config {
	out := raft.DefaultConfig()
	out.LocalID = own
	out.ElectionTimeout = c.ElectionTimeout
	out.HeartbeatTimeout = min(c.FetchTimeout/2, c.ElectionTimeout)
	out.LeaderLeaseTimeout = out.HeartbeatTimeout
	out.MaxAppendEntries = appendEntriesMax
	out.TrailingLogs = c.trailing
	out.SnapshotThreshold = c.SnapshotEntries
	// One entry is in flight at a time, so there is nothing to buffer, and an
	// entry that was not taken in time is surely not appended.
	out.BatchApplyCh = false
	// A removed leader steps down; when the process ends is the node's business.
	out.ShutdownOnRemove = false
	out.NoLegacyTelemetry = true
	if c.untold > 0 {
		out.CommitTimeout = c.untold
	}
	out.NotifyCh = notify
	out.Logger = newRaftLogger(c.Logger)
	return out
}
