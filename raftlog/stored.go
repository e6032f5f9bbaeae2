package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/klamm/klamm/protocol"
)

// Stored is what the Raft store of a node says that does not run.
type Stored struct {
	Term  uint64
	Voted protocol.NodeID // in Term; NoNode for nobody
	// LastIndex and LastTerm are those of the last entry, or of the newest
	// snapshot where there is none behind it; they may be committed or not.
	LastIndex, LastTerm uint64
	Voters              []protocol.NodeID // by the newest membership
}

// ErrInUse is what a store of a running node is.
var ErrInUse = errors.New("a node is running on it")

// IsStoreFile tells the files that a Raft store is, beside its snapshots: where they are
// gone a node begins another one on what the metadata log holds.
func IsStoreFile(name string) bool { return name == boltFile || name == markFile }

// ReadStored reads a store and changes nothing. newest is the newest snapshot
// beside it, zero for none; each gets the proposals behind it. It is
// fs.ErrNotExist where there is no store, as in a directory of Apache Kafka or of
// a node that is no controller.
func ReadStored(dir string, newest SnapshotMeta, each func(Entry) error) (*Stored, error) {
	path := filepath.Join(dir, boltFile)
	if err := checkStored(path); err != nil {
		return nil, err
	}
	db, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: storedOptions()})
	if err != nil {
		return nil, storedError(path, err)
	}
	defer db.Close()
	s, err := readStored(db, newest, each)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func storedOptions() *bbolt.Options {
	o := boltOptions()
	o.ReadOnly, o.Timeout = true, 100*time.Millisecond
	return o
}

// checkStored finds out, without a change, whether a store can be read. It looks at
// the pages below Bolt's lock: those that a node is writing may seem to be damaged.
func checkStored(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, storedOptions())
	if err != nil {
		return storedError(path, err)
	}
	defer db.Close()
	if err := checkBolt(path); err != nil {
		return damagedBolt(path, err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("logs")) == nil || tx.Bucket([]byte("conf")) == nil {
			return fmt.Errorf("%s is empty: %w", path, fs.ErrNotExist)
		}
		return nil
	})
}

func storedError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%s: %w", path, ErrInUse)
	case errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) || errors.Is(err, berrors.ErrVersionMismatch):
		return damagedBolt(path, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

func readStored(db database, newest SnapshotMeta, each func(Entry) error) (*Stored, error) {
	s := &Stored{Voted: protocol.NoNode, LastIndex: newest.Index, LastTerm: newest.Term}
	var err error
	if s.Term, err = db.GetUint64([]byte(keyCurrentTerm)); err != nil && !isNotFound(err) {
		return nil, err
	}
	vote, err := db.Get([]byte(keyVote))
	if err != nil && !isNotFound(err) {
		return nil, err
	}
	if len(vote) > 8 && binary.BigEndian.Uint64(vote) == s.Term {
		s.Voted = nodeOf(raft.ServerID(vote[8:]))
	}
	var members raft.Configuration
	if newest.Index > 0 {
		if members, err = decodeConfiguration(newest.Configuration); err != nil {
			return nil, err
		}
	}
	first, err := db.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := db.LastIndex()
	if err != nil {
		return nil, err
	}
	for index := max(first, newest.Index+1); index <= last; index++ {
		var entry raft.Log
		if err := db.GetLog(index, &entry); err != nil {
			return nil, fmt.Errorf("entry %d: %w", index, err)
		}
		s.LastIndex, s.LastTerm = entry.Index, entry.Term
		switch entry.Type {
		case raft.LogConfiguration:
			if members, err = decodeConfiguration(entry.Data); err != nil {
				return nil, fmt.Errorf("entry %d: %w", index, err)
			}
		case raft.LogCommand:
			if err := each(Entry{Index: entry.Index, Term: entry.Term, Data: entry.Data}); err != nil {
				return nil, fmt.Errorf("entry %d: %w", index, err)
			}
		}
	}
	for _, server := range members.Servers {
		if server.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, nodeOf(server.ID))
		}
	}
	return s, nil
}
