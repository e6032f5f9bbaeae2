package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

type dirKind int

const (
	dirEmpty     dirKind = iota // missing, or nothing in it
	dirFormatted                // has a meta.properties
	dirForeign                  // something else is in it
)

// dirState is what a log directory looks like before anything is opened.
type dirState struct {
	kind   dirKind
	meta   storage.MetaProperties // where formatted
	sample string                 // some names, where foreign
	// otherKafka: the metadata log was begun by Apache Kafka's own Raft.
	otherKafka bool
}

func inspectDir(dir string) (dirState, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dirState{kind: dirEmpty}, nil
	}
	if err != nil {
		return dirState{}, err
	}
	var names []string
	for _, entry := range entries {
		switch entry.Name() {
		case "meta.properties":
			meta, err := storage.ReadMetaProperties(vfs.OS(), dir)
			if err != nil {
				return dirState{}, err
			}
			other, err := hasOtherQuorum(dir)
			return dirState{kind: dirFormatted, meta: meta, otherKafka: other}, err
		case "lost+found", "meta.properties.tmp":
			// The root of a file system of its own; a format that was killed.
		case metadataDir:
			begun, err := hasLog(filepath.Join(dir, metadataDir))
			if err != nil {
				return dirState{}, err
			}
			if begun {
				names = append(names, entry.Name())
			}
		default:
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return dirState{kind: dirEmpty}, nil
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return dirState{kind: dirForeign, sample: strings.Join(names, ", ")}, nil
}

const (
	metadataDir = protocol.MetadataTopic + "-0"
	raftStore   = "raft.db"
)

// hasLog reports whether a metadata directory is more than the checkpoint of a
// format that was killed before meta.properties.
func hasLog(metadata string) (bool, error) {
	entries, err := os.ReadDir(metadata)
	for _, entry := range entries {
		if entry.Name() == raftStore || filepath.Ext(entry.Name()) == ".log" {
			return true, nil
		}
	}
	return false, err
}

// hasOtherQuorum reports whether a metadata log is there without the store of
// our Raft beside it.
func hasOtherQuorum(dir string) (bool, error) {
	metadata := filepath.Join(dir, metadataDir)
	if _, err := os.Stat(filepath.Join(metadata, raftStore)); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	other, err := hasLog(metadata)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return other, err
}

// checkFormatted refuses to start on directories that nobody prepared, and
// says how to prepare them.
func checkFormatted(cfg *config.Config) error {
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		switch {
		case err != nil:
			return err
		case state.kind == dirForeign:
			return fmt.Errorf("%s is no log directory: it has no meta.properties and holds %s", dir, state.sample)
		case state.kind == dirEmpty:
			file := " --config " + cfg.File
			if cfg.File == config.Environment {
				file = ""
			}
			return fmt.Errorf("%s is not formatted. A new node is formatted with\n\n    klamm storage format --cluster-id %s%s\n\n(all nodes of a cluster with the same cluster id). For a node that had data, look at log.dirs first: it may be an unmounted disk",
				dir, protocol.NewUUID(), file)
		case state.meta.NodeID != cfg.Node.ID:
			return fmt.Errorf("%s belongs to node %d, and %s says node.id=%d", dir, state.meta.NodeID, cfg.File, cfg.Node.ID)
		case cfg.Node.IsController && dir == cfg.Dirs.Metadata && state.otherKafka:
			return fmt.Errorf("%s has a metadata log without raft.db: either a controller of Apache Kafka wrote it, whose metadata log is not klamm's, or raft.db is lost: restore %s from a copy", dir, metadataDir)
		}
	}
	return nil
}

type formatHow int

const (
	formatAll     formatHow = iota // a formatted directory is an error
	formatMissing                  // formatted directories are left alone
)

// formatDirs writes meta.properties into every directory and the bootstrap
// checkpoint into a controller's metadata log. Everything is looked at before
// anything is written.
func formatDirs(cfg *config.Config, clusterID string, how formatHow) error {
	var missing []string
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		switch {
		case err != nil:
			return err
		case state.kind == dirForeign:
			return fmt.Errorf("%s is not empty: it holds %s", dir, state.sample)
		case state.kind == dirEmpty:
			missing = append(missing, dir)
		case how == formatAll:
			return fmt.Errorf("%s is formatted already, for node %d of cluster %s; --ignore-formatted leaves it as it is and formats the others", dir, state.meta.NodeID, state.meta.ClusterID)
		case state.meta.ClusterID != clusterID:
			return fmt.Errorf("%s belongs to cluster %s, not to %s", dir, state.meta.ClusterID, clusterID)
		case state.meta.NodeID != cfg.Node.ID:
			return fmt.Errorf("%s belongs to node %d, not to %d", dir, state.meta.NodeID, cfg.Node.ID)
		}
	}
	fsys := vfs.OS()
	for _, dir := range missing {
		// meta.properties goes last: a directory that has it is complete.
		if cfg.Node.IsController && dir == cfg.Dirs.Metadata {
			if err := writeBootstrap(fsys, dir); err != nil {
				return err
			}
		}
		meta := storage.MetaProperties{ClusterID: clusterID, NodeID: cfg.Node.ID, DirectoryID: protocol.NewUUID()}
		if err := storage.Format(fsys, dir, meta, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// writeBootstrap makes the metadata directory with the records that the first
// leader begins with. What a killed format left there is replaced.
func writeBootstrap(fsys vfs.FS, dir string) error {
	metadata := filepath.Join(dir, metadataDir)
	if err := os.RemoveAll(metadata); err != nil {
		return err
	}
	if err := os.MkdirAll(metadata, 0o755); err != nil {
		return err
	}
	if err := snapshot.WriteBootstrap(fsys, metadata, time.Now().UnixMilli(), snapshot.Quorum{}, snapshot.DefaultFeatures()); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
