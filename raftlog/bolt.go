package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// boltFile is Raft's store inside the metadata log's directory.
const boltFile = "raft.db"

const (
	// compactAbove is the size from which a look at the free pages pays.
	compactAbove = 32 << 20
	// lockTimeout is how long to wait for another process to let go of the file.
	lockTimeout = time.Second
)

func boltOptions() *bbolt.Options {
	o := *bbolt.DefaultOptions
	o.Timeout = lockTimeout
	// Else each commit rewrites the list of all free pages, 8 bytes each: after
	// a burst has been trimmed that is most of the cost of a commit. The price
	// is a scan of the file when it is opened.
	o.NoFreelistSync = true
	o.FreelistType = bbolt.FreelistMapType
	return &o
}

// openBolt opens or makes the store, and makes it smaller where most of it is free.
func openBolt(dir string) (*raftboltdb.BoltStore, error) {
	path := filepath.Join(dir, boltFile)
	info, err := os.Stat(path)
	made := errors.Is(err, fs.ErrNotExist)
	if err != nil && !made {
		return nil, err
	}
	if !made {
		if err := checkBolt(path); err != nil {
			return nil, damagedBolt(path, err)
		}
	}
	if !made && info.Size() >= compactAbove {
		// Larger than it has to be is better than not at all.
		if err := compactBolt(path); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return nil, fmt.Errorf("compact %s: %w", path, err)
		}
	}
	db, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is locked by another process", path)
	}
	if errors.Is(err, berrors.ErrInvalid) || errors.Is(err, berrors.ErrChecksum) || errors.Is(err, berrors.ErrVersionMismatch) {
		return nil, damagedBolt(path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if made {
		// Bolt syncs the file, not its name.
		if err := syncDir(dir); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return db, nil
}

// damagedBolt says what to do about a store that cannot be used.
func damagedBolt(path string, err error) error {
	return fmt.Errorf("%s is damaged: %w: restore its directory from a copy, or, if other controllers "+
		"hold the metadata, format it anew", path, err)
}

// compactBolt copies what is alive into a new file where half of the old one
// or more is free: Bolt never gives a page back by itself. A crash on the way
// leaves the old file in place.
func compactBolt(path string) error {
	src, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	free := int64(src.Stats().FreePageN) * int64(src.Info().PageSize)
	if free < info.Size()/2 {
		return nil
	}
	tmp := path + ".compact"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dst, err := bbolt.Open(tmp, 0o600, boltOptions())
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, src, 1<<20)
	if err == nil {
		err = dst.Sync()
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
