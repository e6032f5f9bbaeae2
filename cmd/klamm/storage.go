package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/protocol"
)

func newStorageCommand() *cobra.Command {
	return group("storage", "Prepare and look at a node's directories", newFormatCommand(), newInfoCommand(), newRandomUUIDCommand())
}

func newFormatCommand() *cobra.Command {
	var clusterID, file string
	var ignoreFormatted bool
	cmd := &cobra.Command{
		Use:   "format -t CLUSTER -c FILE",
		Short: "Prepare the directories of a new node",
		Long: `Write meta.properties into every log directory of a server.properties, and a
controller's first metadata, as Kafka's format tool does: the six features of
Kafka 4.4. All nodes of a cluster are formatted with the same cluster id.`,
		Example: `  klamm storage format -t $(klamm storage random-uuid) -c server.properties`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if clusterID == "" || file == "" && len(config.FromEnvironment(os.Environ())) == 0 {
				return usagef("klamm storage format needs --cluster-id (klamm storage random-uuid makes one) and --config")
			}
			if strings.ContainsAny(clusterID, " \t\r\n=") {
				return usagef("--cluster-id %q: valid is a text without blanks, such as the ones of klamm storage random-uuid", clusterID)
			}
			cfg, err := config.Load(file, os.Environ(), nil)
			if err != nil {
				return usageError{err}
			}
			how := formatAll
			if ignoreFormatted {
				how = formatMissing
			}
			if err := formatDirs(cfg, clusterID, how); err != nil {
				return err
			}
			for _, dir := range cfg.Dirs.All() {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is formatted for node %d of cluster %s\n", dir, cfg.Node.ID, clusterID)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&clusterID, "cluster-id", "t", "", "the cluster's id")
	cmd.Flags().StringVarP(&file, "config", "c", "", "the node's server.properties")
	cmd.Flags().BoolVarP(&ignoreFormatted, "ignore-formatted", "g", false, "leave directories that are formatted already, instead of refusing")
	return cmd
}

func newInfoCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "info -c FILE",
		Short: "Say which directories a node has and whose they are",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("klamm storage info needs --config")
			}
			cfg, err := config.Load(file, os.Environ(), nil)
			if err != nil {
				return usageError{err}
			}
			out := cmd.OutOrStdout()
			unformatted := 0
			for _, dir := range cfg.Dirs.All() {
				state, err := inspectDir(dir)
				if err != nil {
					return err
				}
				switch state.kind {
				case dirFormatted:
					fmt.Fprintf(out, "%s: node %d, cluster %s, directory %s\n", dir, state.meta.NodeID, state.meta.ClusterID, state.meta.DirectoryID)
				case dirEmpty:
					unformatted++
					fmt.Fprintf(out, "%s: not formatted\n", dir)
				case dirForeign:
					unformatted++
					fmt.Fprintf(out, "%s: not formatted, holds %s\n", dir, state.sample)
				}
			}
			if unformatted > 0 {
				return fmt.Errorf("%d of %d directories are not formatted", unformatted, len(cfg.Dirs.All()))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the node's server.properties")
	return cmd
}

func newRandomUUIDCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "random-uuid",
		Short: "Print a fresh id for a cluster",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), protocol.NewUUID())
			return nil
		},
	}
}
