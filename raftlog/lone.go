package raftlog

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// Lone is what MakeLone needs.
type Lone struct {
	Dir         string // the metadata log's
	NodeID      protocol.NodeID
	DirectoryID protocol.UUID
	ClusterID   string
	Snapshots   SnapshotStore
	// Epoch is the term of what is added: above all that was, here and on the nodes
	// that are lost, lest one entry has two contents.
	Epoch protocol.ControllerEpoch
	// Voters makes the entry that says of a dynamic quorum who votes now; nil in a
	// static one, whose voters the configuration names.
	Voters func(protocol.ControllerEpoch) []byte
}

// MakeLone makes a stopped node the only voter of its log, for a quorum of which
// too many are lost for good. Nothing is taken away: a membership is appended, by
// which all entries are committed that are here, whether they once were or not.
// What was committed on the lost nodes and is not here stays lost. It must never be
// done on two nodes of one cluster: they would be two clusters.
func MakeLone(l Lone) error {
	if l.Epoch <= 0 {
		return fmt.Errorf("raftlog: epoch %d", l.Epoch)
	}
	db, err := openBolt(l.Dir)
	if err != nil {
		return err
	}
	err = makeLone(l, db)
	return errors.Join(err, db.Close())
}

func makeLone(l Lone, db database) error {
	cfg := Config{NodeID: l.NodeID, DirectoryID: l.DirectoryID, ClusterID: l.ClusterID}
	cfg.setDefaults()
	logs := newLogStore(db, cfg.StoreTimeout, newFailure())
	switch owned, err := isOwn(&cfg, logs); {
	case err != nil:
		return err
	case !owned:
		return errors.New(boltFile + " has no owner: no node has begun a log in it")
	}
	snaps := &snapshotStore{store: l.Snapshots, fail: logs.fail}
	if _, err := repairLog(logs, snaps); err != nil {
		return err
	}
	if err := checkConnected(logs, snaps); err != nil {
		return err
	}
	stable, err := openStableStore(logs)
	if err != nil {
		return err
	}
	self, last, err := lastMembership(l, db, snaps)
	if err != nil {
		return err
	}
	entries := []*raft.Log{{
		Index: last + 1, Term: uint64(l.Epoch), Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{self}}),
	}}
	if l.Voters != nil {
		entries = append(entries, &raft.Log{Index: last + 2, Term: uint64(l.Epoch), Type: raft.LogCommand, Data: l.Voters(l.Epoch)})
	}
	// The term goes first: without the entries it changes nothing.
	if err := stable.setTerm(uint64(l.Epoch)); err != nil {
		return err
	}
	return logs.write("append the membership", func() error { return db.StoreLogs(entries) })
}

// lastMembership finds this node's server and the index of the last entry.
func lastMembership(l Lone, db database, snaps *snapshotStore) (self raft.Server, last uint64, err error) {
	self = raft.Server{Suffrage: raft.Voter, ID: serverID(l.NodeID)}
	switch id, err := db.Get([]byte(keyServer)); {
	case err == nil:
		self.ID = raft.ServerID(id)
	case !isNotFound(err):
		return self, 0, fmt.Errorf("raft store: read the server id: %w", err)
	}
	find := func(c raft.Configuration) {
		for _, s := range c.Servers {
			if p := peerOf(s.ID); p.Node == l.NodeID && (p.Directory == protocol.ZeroUUID || p.Directory == l.DirectoryID) {
				self.ID = s.ID
			}
		}
	}
	metas, err := snaps.List()
	if err != nil {
		return self, 0, err
	}
	if len(metas) > 0 {
		find(metas[0].Configuration)
		last = metas[0].Index
	}
	first, err := db.FirstIndex()
	if err != nil {
		return self, 0, err
	}
	end, err := db.LastIndex()
	if err != nil {
		return self, 0, err
	}
	for index := max(first, last+1); index <= end && index > 0; index++ {
		var entry raft.Log
		if err := db.GetLog(index, &entry); err != nil {
			return self, 0, fmt.Errorf("raft store: read entry %d: %w", index, err)
		}
		if entry.Type != raft.LogConfiguration {
			continue
		}
		c, err := decodeConfiguration(entry.Data)
		if err != nil {
			return self, 0, err
		}
		find(c)
	}
	self.Address = raft.ServerAddress(self.ID)
	return self, max(last, end), nil
}
