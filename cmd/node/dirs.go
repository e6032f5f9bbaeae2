package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// openDirs takes the node's directories, the metadata log's first, and checks
// that they belong to this node and to one cluster.
func (n *node) openDirs() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, n.closeDirs())
			n.dirs = nil
		}
	}()
	for _, path := range n.cfg.Dirs.All() {
		dir, err := storage.OpenDir(vfs.OS(), path, time.Now())
		if err != nil {
			return err
		}
		n.dirs = append(n.dirs, dir)
		if id := dir.MetaProperties().NodeID; id != n.cfg.Node.ID {
			return fmt.Errorf("%s belongs to node %d (node.id in its meta.properties), and %s says node.id=%d", path, id, n.cfg.File, n.cfg.Node.ID)
		}
	}
	if err := storage.CheckDirs(n.dirs); err != nil {
		return err
	}
	n.cluster = n.dirs[0].MetaProperties().ClusterID
	return nil
}

func (n *node) closeDirs() error {
	var errs []error
	for _, dir := range n.dirs {
		errs = append(errs, dir.Close())
	}
	return errors.Join(errs...)
}

// logDirs are the directories that hold partitions (log.dirs).
func (n *node) logDirs() []*storage.Dir {
	var dirs []*storage.Dir
	for _, dir := range n.dirs {
		if slices.Contains(n.cfg.Dirs.Log, dir.Path()) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// previousEpoch is the broker epoch that all clean-shutdown marks agree on, −1
// where one is missing or says otherwise.
func previousEpoch(dirs []*storage.Dir) protocol.BrokerEpoch {
	var previous protocol.BrokerEpoch = -1
	for i, dir := range dirs {
		epoch, clean := dir.CleanShutdown()
		if !clean || i > 0 && epoch != previous {
			return -1
		}
		previous = epoch
	}
	return previous
}
