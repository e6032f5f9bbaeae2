package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/protocol"
)

func newStorageCommand() *cobra.Command {
	return group("storage", "Prepare and look at a node's directories",
		newFormatCommand(), newInfoCommand(), newRandomUUIDCommand(), newVersionMappingCommand(), newFeatureDependenciesCommand())
}

// configFlags say which node's directories are meant.
type configFlags struct {
	file      string
	overrides []string
}

func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the node's server.properties")
	cmd.Flags().StringArrayVar(&f.overrides, "override", nil, "KEY=VALUE that counts more than the file (repeat for more)")
}

func (f *configFlags) given() bool {
	return f.file != "" || len(config.FromEnvironment(os.Environ())) > 0
}

// load reads the file that --config names, or what the environment says.
func (f *configFlags) load(cmd *cobra.Command) (*config.Config, error) {
	if !f.given() {
		return nil, usagef("%s needs --config", cmd.CommandPath())
	}
	cfg, err := config.Load(f.file, os.Environ(), f.overrides)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
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
