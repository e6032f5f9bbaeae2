package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
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
func checkFormatted(cfg *config.Config, overrides []string) error {
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		if err == nil {
			err = checkDir(cfg, dir, state, overrides)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkDir says why a node cannot start on a directory.
func checkDir(cfg *config.Config, dir string, state dirState, overrides []string) error {
	switch {
	case state.kind == dirForeign:
		return fmt.Errorf("%s is no log directory: it has no meta.properties and holds %s", dir, state.sample)
	case state.kind == dirEmpty:
		return fmt.Errorf("%s is not formatted. A new node is formatted with\n\n    %s\n\n(all nodes of a cluster with the same cluster id). For a node that had data, look at log.dirs first: it may be an unmounted disk",
			dir, formatCommand(cfg, overrides))
	case state.meta.NodeID != cfg.Node.ID:
		return fmt.Errorf("%s belongs to node %d (node.id in its meta.properties), and %s says node.id=%d", dir, state.meta.NodeID, cfg.File, cfg.Node.ID)
	case cfg.Node.IsController && dir == cfg.Dirs.Metadata && state.otherKafka && len(cfg.Quorum.Voters) > 1:
		return fmt.Errorf("%s has a metadata log without raft.db: either one of several controllers of Apache Kafka wrote it, whose votes klamm cannot take over, or raft.db is lost: restore %s from a copy", dir, metadataDir)
	}
	return nil
}

// formatCommand is the command that would format the node's directories: for
// the cluster that one of them belongs to already, else for a new one.
func formatCommand(cfg *config.Config, overrides []string) string {
	clusterID, extra := "", ""
	for _, dir := range cfg.Dirs.All() {
		if meta, err := storage.ReadMetaProperties(vfs.OS(), dir); err == nil {
			clusterID, extra = meta.ClusterID, " --ignore-formatted"
		}
	}
	if clusterID == "" {
		clusterID = protocol.NewUUID().String()
	}
	if cfg.File != config.Environment {
		extra += " --config " + shellWord(cfg.File)
	}
	for _, override := range overrides {
		extra += " --override " + shellWord(override)
	}
	if cfg.Node.IsController && len(cfg.Quorum.Voters) == 0 {
		extra += " " + firstControllers(cfg)
	}
	return "klamm storage format --cluster-id " + clusterID + extra
}

// firstControllers is the option that a controller of a dynamic quorum needs: it
// joins others where its configuration names others to be asked.
func firstControllers(cfg *config.Config) string {
	for _, server := range cfg.Quorum.Bootstrap {
		_, port, _ := net.SplitHostPort(server)
		own := func(l config.Listener) bool { return strconv.Itoa(l.Port) == port }
		if !slices.ContainsFunc(cfg.Listeners.Controller, own) {
			return "--no-initial-controllers"
		}
	}
	return "--standalone"
}

// shellWord is text as one word of a shell's command line.
func shellWord(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("/._-=:,@+%", r) && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

type formatHow int

const (
	formatAll     formatHow = iota // a formatted directory is an error
	formatMissing                  // formatted directories are left alone
)

// formatPlan is what goes into unformatted directories.
type formatPlan struct {
	clusterID string
	how       formatHow
	// directory is the id of the metadata log's directory.
	directory protocol.UUID
	// level is the metadata.version that records begins with, quorum where the
	// voters are: the 0-0 checkpoint of a controller.
	level   feature.Level
	records []record.Record
	quorum  snapshot.Quorum
}

// formatDirs writes meta.properties into every directory and the bootstrap
// checkpoint into a controller's metadata log, and returns the directories that
// were not formatted. Everything is looked at before anything is written.
func formatDirs(cfg *config.Config, p formatPlan) ([]string, error) {
	var missing []string
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		switch {
		case err != nil:
			return nil, err
		case state.kind == dirForeign:
			return nil, fmt.Errorf("%s is not empty: it holds %s", dir, state.sample)
		case state.kind == dirEmpty:
			missing = append(missing, dir)
		case p.how == formatAll:
			return nil, fmt.Errorf("%s is formatted already, for node %d of cluster %s; --ignore-formatted leaves it as it is and formats the others", dir, state.meta.NodeID, state.meta.ClusterID)
		case state.meta.ClusterID != p.clusterID:
			return nil, fmt.Errorf("%s belongs to cluster %s, not to %s", dir, state.meta.ClusterID, p.clusterID)
		case state.meta.NodeID != cfg.Node.ID:
			return nil, fmt.Errorf("%s belongs to node %d, not to %d", dir, state.meta.NodeID, cfg.Node.ID)
		}
	}
	fsys := vfs.OS()
	for _, dir := range missing {
		meta := storage.MetaProperties{ClusterID: p.clusterID, NodeID: cfg.Node.ID, DirectoryID: protocol.NewUUID()}
		if dir == cfg.Dirs.Metadata {
			meta.DirectoryID = p.directory
		}
		// meta.properties goes last: a directory that has it is complete.
		if cfg.Node.IsController && dir == cfg.Dirs.Metadata {
			if err := writeBootstrap(fsys, dir, p); err != nil {
				return nil, err
			}
		}
		if err := storage.Format(fsys, dir, meta, time.Now()); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// writeBootstrap makes the metadata directory with the records that the first
// leader begins with. What a killed format left there is replaced.
func writeBootstrap(fsys vfs.FS, dir string, p formatPlan) error {
	metadata := filepath.Join(dir, metadataDir)
	if err := os.RemoveAll(metadata); err != nil {
		return err
	}
	if err := os.MkdirAll(metadata, 0o755); err != nil {
		return err
	}
	if err := snapshot.WriteBootstrap(fsys, metadata, time.Now().UnixMilli(), p.quorum, p.records); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
