package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/klamm/klamm/protocol"
)

// keyIdentity holds whose store this is, so that a copied file does not vote
// in another node's name.
const keyIdentity = "Identity"

func (c *Config) identity() string {
	return fmt.Sprintf("node %d, directory %s, cluster %s", c.NodeID, c.DirectoryID, c.ClusterID)
}

// bootstrap makes the first entry of a new log, the membership, on every voter
// alike. A crash anywhere in between leaves a store that is bootstrapped again:
// what counts is the entry, which is written last. The library's own order
// would leave one that neither starts nor can be bootstrapped.
//
// A log that is there is checked to be this node's, and not to be older than
// what quorum-state tells: a voter that has lost its votes must not vote.
func bootstrap(cfg *Config, logs *logStore, stable *stableStore, snaps *snapshotStore) error {
	if err := begin(cfg, logs, stable, snaps); err != nil {
		return err
	}
	return mark(cfg.Dir)
}

func begin(cfg *Config, logs *logStore, stable *stableStore, snaps *snapshotStore) error {
	last, err := logs.db.LastIndex()
	if err != nil {
		return fmt.Errorf("raft store: read the last index: %w", err)
	}
	metas, err := snaps.store.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	qs, _, err := readQuorumState(cfg.Dir)
	if err != nil {
		return err
	}
	if last == 0 && (len(metas) == 0 || metas[0].Index == membershipIndex) {
		if !cfg.initial() {
			return wait(cfg, logs, stable, qs)
		}
		term, _ := stable.current()
		term = max(term, 1, uint64(cfg.SeedEpoch))
		inherited, err := inherit(cfg, snaps)
		if err != nil {
			return err
		}
		if !inherited {
			if err := refuseStrange(cfg, logs); err != nil {
				return err
			}
		}
		if inherited {
			// A lone voter has only ever voted for itself.
			term = max(term, uint64(max(qs.LeaderEpoch, 0)))
		}
		if err := notBehind(qs, term); err != nil {
			return err
		}
		return makeLog(cfg, logs, stable, term)
	}
	switch owned, err := isOwn(cfg, logs); {
	case err != nil:
		return err
	case !owned:
		return errors.New("there are snapshots of a Raft log, but " + boltFile + " is gone or new: its votes are lost")
	}
	term, _ := stable.current()
	return notBehind(qs, term)
}

// isOwn tells whether a store has an owner, and refuses one that is not this node.
func isOwn(cfg *Config, logs *logStore) (bool, error) {
	owner, err := logs.db.Get([]byte(keyIdentity))
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("raft store: read its owner: %w", err)
	case string(owner) != cfg.identity():
		return false, fmt.Errorf("%s is of %s, but this is %s", boltFile, owner, cfg.identity())
	}
	return true, nil
}

// wait prepares the store of a node that is no voter yet: it has no log before a
// leader sends one.
func wait(cfg *Config, logs *logStore, stable *stableStore, qs quorumState) error {
	owned, err := isOwn(cfg, logs)
	if err != nil {
		return err
	}
	term, _ := stable.current()
	if err := notBehind(qs, term); err != nil || owned {
		return err
	}
	if marked, err := isMarked(cfg.Dir); err != nil || marked {
		return errors.Join(err, errLostStore)
	}
	return own(cfg, logs)
}

func own(cfg *Config, logs *logStore) error {
	return logs.write("set the owner", func() error {
		return logs.db.Set([]byte(keyIdentity), []byte(cfg.identity()))
	})
}

// refuseStrange refuses to begin a log of several voters where there was one:
// of this node, or of Kafka's Raft, whose votes are not known here.
func refuseStrange(cfg *Config, logs *logStore) error {
	if cfg.static() {
		return nil
	}
	owned, err := isOwn(cfg, logs)
	if err != nil || owned {
		return err
	}
	if marked, err := isMarked(cfg.Dir); err != nil || marked {
		return errors.Join(err, errLostStore)
	}
	if cfg.Inherited == nil || len(cfg.Voters) == 1 {
		return nil
	}
	state, err := cfg.Inherited()
	if err != nil || state == nil {
		return err
	}
	state.Release()
	return errors.New("there is a metadata log of several voters, but no " + boltFile + ": the votes of Apache Kafka's controllers can not be taken over")
}

func isMarked(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// membershipIndex is that of a log's first entry.
const membershipIndex = 1

// inherit makes the state that a log begins with its first snapshot, which
// stands for the membership and what was before it. The log follows, so that it
// is never without.
func inherit(cfg *Config, snaps *snapshotStore) (ok bool, err error) {
	if cfg.Inherited == nil || len(cfg.Voters) != 1 {
		return false, nil
	}
	state, err := cfg.Inherited()
	if err != nil || state == nil {
		return false, err
	}
	defer state.Release()
	if marked, err := isMarked(cfg.Dir); err != nil || marked {
		return false, errors.Join(err, fmt.Errorf("%s is gone, and with it votes and what the metadata log beside it may lack: "+
			"restore both from a copy, or remove %s too, to go on with what that log has", boltFile, markFile))
	}
	sink, err := snaps.store.Create(SnapshotMeta{
		Index:              membershipIndex,
		Term:               1,
		Configuration:      raft.EncodeConfiguration(cfg.membership()),
		ConfigurationIndex: membershipIndex,
	})
	if err == nil {
		if _, err = state.WriteTo(sink); err != nil {
			err = errors.Join(err, sink.Cancel())
		} else {
			err = sink.Close()
		}
	}
	if err != nil {
		return false, fmt.Errorf("take over a metadata log: %w", err)
	}
	return true, nil
}

// markFile tells a directory whose raft.db was lost from one that never had one.
const markFile = "raft.mark"

// mark is made once there is a log, so that a takeover that a crash cut short is
// done again.
func mark(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, markFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark the directory as klamm's: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return syncDir(dir)
}

// notBehind refuses a store whose term is below one that quorum-state knows.
// The file is written after Bolt, so this store is older, or it is new.
func notBehind(qs quorumState, term uint64) error {
	if uint64(max(qs.LeaderEpoch, 0)) <= term {
		return nil
	}
	return fmt.Errorf("%s tells of epoch %d, %s knows only %d: it is gone, or an old copy, and its votes are lost",
		quorumStateFile, qs.LeaderEpoch, boltFile, term)
}

func makeLog(cfg *Config, logs *logStore, stable *stableStore, term uint64) error {
	if err := own(cfg, logs); err != nil {
		return err
	}
	if err := stable.setTerm(term); err != nil {
		return err
	}
	return logs.write("append the membership", func() error {
		return logs.db.StoreLog(&raft.Log{
			Index: membershipIndex,
			Term:  1,
			Type:  raft.LogConfiguration,
			Data:  raft.EncodeConfiguration(cfg.membership()),
		})
	})
}

// sameVoters refuses a configuration whose voters are not the log's: in a
// static quorum only all nodes together, stopped, could change them.
func sameVoters(cfg *Config, log raft.Configuration) error {
	have := make(map[protocol.NodeID]bool)
	for _, s := range log.Servers {
		have[nodeOf(s.ID)] = s.Suffrage == raft.Voter
	}
	ok := len(have) == len(cfg.Voters)
	for _, v := range cfg.Voters {
		ok = ok && have[v.ID]
	}
	if ok {
		return nil
	}
	return fmt.Errorf("the configured voters %v are not those of the metadata log, %v", ids(cfg.membership()), ids(log))
}

func ids(c raft.Configuration) []raft.ServerID {
	var out []raft.ServerID
	for _, s := range c.Servers {
		out = append(out, s.ID)
	}
	return out
}
