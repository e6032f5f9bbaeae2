package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/inspect"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

func newLogStraysCommand() *cobra.Command {
	var flags configFlags
	var remove, asJSON bool
	cmd := &cobra.Command{
		Use:   "strays [DIR...]",
		Short: "List logs that were set aside, and remove them on order",
		Long: `List the logs that a node has set aside under a -stray name: at its start it found
that their topic was deleted, or created anew under the same name, or that the
replica had moved to other brokers while it was away. Such a log is served to nobody
and stays until somebody orders its removal.

DIR is a log directory, or one log that was set aside. --config names the node's
configuration instead, and means all of its log directories. Where the node's
metadata log is among them it is said what has become of the topic.

With --remove what is listed is removed, for good. The node may run, if it is klamm:
Apache Kafka opens such logs at its start.`,
		Example: `  klamm log strays /var/lib/klamm
  klamm log strays --config server.properties --json
  klamm log strays --remove /var/lib/klamm/orders-0.5f1c0a7e9b3d4c2f8a6e1d0b7c9f2e4a-stray`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dirs, err := straysWhere(cmd, &flags, args)
			if err != nil {
				return err
			}
			strays, err := findStrays(dirs)
			if err != nil {
				return err
			}
			if remove {
				for i := range strays {
					if err := storage.RemoveStray(vfs.OS(), strays[i].Path); err != nil {
						return err
					}
					strays[i].Removed = true
				}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), strays)
			}
			return printStrays(cmd.OutOrStdout(), strays, remove)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&remove, "remove", false, "remove what is listed, for good")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON array")
	return cmd
}

// straysWhere is where to look: what is named, or what the configuration has.
func straysWhere(cmd *cobra.Command, flags *configFlags, args []string) ([]string, error) {
	if len(args) == 0 {
		if !flags.given() {
			return nil, usagef("%s takes --config or log directories; see %s --help", cmd.CommandPath(), cmd.CommandPath())
		}
		cfg, err := flags.load(cmd)
		if err != nil {
			return nil, err
		}
		return cfg.Dirs.All(), nil
	}
	if flags.file != "" || len(flags.overrides) > 0 {
		return nil, usagef("%s takes either --config, which --override goes with, or directories", cmd.CommandPath())
	}
	return args, nil
}

// stray is one log that was set aside.
type stray struct {
	Path      string    `json:"path"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	TopicID   string    `json:"topicId"` // zero where the log had not got it yet
	Bytes     int64     `json:"bytes"`
	Written   time.Time `json:"lastWritten,omitzero"`
	Origin    string    `json:"origin"`
	Removed   bool      `json:"removed"`
}

// findStrays lists the logs that lie in directories, or are one themselves.
func findStrays(dirs []string) ([]stray, error) {
	var found []storage.Stray
	own := newOrigin()
	for _, dir := range dirs {
		parent, name := filepath.Split(filepath.Clean(dir))
		parent = filepath.Clean(parent)
		if !strings.HasSuffix(name, "-stray") {
			parent, name = dir, ""
		}
		strays, err := storage.Strays(vfs.OS(), parent)
		if err != nil {
			return nil, err
		}
		before := len(found)
		for _, s := range strays {
			if name == "" || filepath.Base(s.Path) == name {
				found = append(found, s)
			}
		}
		switch {
		case len(found) > before:
		case name != "":
			return nil, fmt.Errorf("%s is no log that was set aside", dir)
		default:
			if _, err := storage.ReadMetaProperties(vfs.OS(), dir); errors.Is(err, storage.ErrNotFormatted) {
				return nil, fmt.Errorf("%s is no log directory: it has no meta.properties", dir)
			}
		}
		if err := own.read(parent); err != nil {
			return nil, err
		}
	}
	out := []stray{}
	for _, s := range found {
		out = append(out, stray{
			Path: s.Path, Topic: s.Topic, Partition: s.Partition, TopicID: s.TopicID.String(),
			Bytes: s.Bytes, Written: s.Written.UTC(), Origin: own.of(s),
		})
	}
	return out, nil
}

// origin tells why a log was set aside, by what the node knows of the cluster.
type origin struct {
	node  protocol.NodeID
	image *metadata.Image // nil where there is no metadata log
}

func newOrigin() *origin { return &origin{node: protocol.NoNode} }

// read takes the metadata log of a log directory, if it has one.
func (o *origin) read(dir string) error {
	path := filepath.Join(dir, metadataDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	img, err := inspect.Load(path, inspect.At{})
	if err != nil {
		return err
	}
	o.image = img
	if state, err := inspectDir(dir); err == nil && state.kind == dirFormatted {
		o.node = state.meta.NodeID
	}
	return nil
}

func (o *origin) of(s storage.Stray) string {
	switch {
	case o.image == nil:
		return "unknown: no metadata log here"
	case s.TopicID == protocol.ZeroUUID:
		return "begun, without the id of a topic"
	}
	topic, ok := o.image.TopicByID(s.TopicID)
	if !ok {
		if _, ok := o.image.Topic(s.Topic); ok {
			return "topic deleted; another one has its name"
		}
		return "topic deleted"
	}
	p, ok := topic.Partition(s.Partition)
	if !ok {
		return "no such partition"
	}
	for _, id := range p.Replicas {
		if id == o.node {
			return "a second copy of what this node holds"
		}
	}
	return "replica moved to brokers " + list(p.Replicas)
}

func printStrays(w io.Writer, strays []stray, removed bool) error {
	if len(strays) == 0 {
		_, err := fmt.Fprintln(w, "nothing was set aside")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TOPIC\tPARTITION\tTOPIC ID\tBYTES\tLAST WRITTEN\tORIGIN\tPATH")
	var total int64
	for _, s := range strays {
		written := "-"
		if !s.Written.IsZero() {
			written = s.Written.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", s.Topic, s.Partition, s.TopicID, s.Bytes, written, s.Origin, s.Path)
		total += s.Bytes
	}
	if err := table.Flush(); err != nil {
		return err
	}
	verb := "in"
	if removed {
		verb = "removed with"
	}
	logs := "logs"
	if len(strays) == 1 {
		logs = "log"
	}
	_, err := fmt.Fprintf(w, "%d bytes %s %d %s\n", total, verb, len(strays), logs)
	return err
}
