package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/inspect"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/storage/vfs"
)

func newInfoCommand() *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "info -c FILE",
		Short: "Say which directories a node has, whose they are, and what is wrong with them",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.load(cmd)
			if err != nil {
				return err
			}
			problems, err := describeDirs(cmd, cfg, flags.overrides)
			if err != nil {
				return err
			}
			if len(problems) == 0 {
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "\nFound problems:\n  %s\n", strings.Join(problems, "\n  "))
			return fmt.Errorf("%s: the node would not start", cfg.File)
		},
	}
	flags.register(cmd)
	return cmd
}

// describeDirs prints a line for each directory and what the metadata log says of
// the cluster, and returns what would keep the node from starting.
func describeDirs(cmd *cobra.Command, cfg *config.Config, overrides []string) (problems []string, err error) {
	out := cmd.OutOrStdout()
	var states []dirState
	for _, dir := range cfg.Dirs.All() {
		state, err := inspectDir(dir)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
		if state.kind != dirFormatted {
			continue
		}
		fmt.Fprintf(out, "%s: node %d, cluster %s, directory %s", dir, state.meta.NodeID, state.meta.ClusterID, state.meta.DirectoryID)
		if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err == nil {
			fmt.Fprint(out, ", stopped in order")
		}
		fmt.Fprintln(out)
	}
	for i, dir := range cfg.Dirs.All() {
		if states[i].kind == dirEmpty {
			problems = append(problems, dir+" is not formatted: "+formatCommand(cfg, overrides))
		} else if err := checkDir(cfg, dir, states[i], overrides); err != nil {
			problems = append(problems, err.Error())
		}
		for j := range i {
			other := cfg.Dirs.All()[j]
			switch a, b := states[i], states[j]; {
			case a.kind != dirFormatted || b.kind != dirFormatted:
			case a.meta.ClusterID != b.meta.ClusterID:
				problems = append(problems, fmt.Sprintf("%s and %s belong to different clusters", other, dir))
			case a.meta.DirectoryID == b.meta.DirectoryID:
				problems = append(problems, fmt.Sprintf("%s and %s have the same directory.id: one is a copy of the other", other, dir))
			}
		}
	}
	if states[0].kind == dirFormatted {
		err = describeMetadata(cmd, filepath.Join(cfg.Dirs.Metadata, metadataDir))
	}
	return problems, err
}

// describeMetadata prints the features of a metadata log or of its beginning.
func describeMetadata(cmd *cobra.Command, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil // a broker that has never run
	}
	img, err := inspect.Load(dir, inspect.At{})
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for name, level := range img.Features() {
		fmt.Fprintf(out, "%s=%d", name, level)
		if name == feature.MetadataVersion {
			fmt.Fprintf(out, " (%s)", feature.Level(level))
		}
		fmt.Fprintln(out)
	}
	if h, _, ok, err := snapshot.ReadBootstrap(vfs.OS(), dir); err == nil && ok && h.KRaft.Version > 0 {
		fmt.Fprintf(out, "%s=%d\n", feature.KRaftVersion, h.KRaft.Version)
	}
	return nil
}
