package main

import (
	"github.com/spf13/cobra"

	"github.com/klamm/klamm/metadata/inspect"
)

func newMetadataCommand() *cobra.Command {
	return group("metadata", "Look at a cluster's metadata", newDumpCommand())
}

func newDumpCommand() *cobra.Command {
	var options inspect.Options
	cmd := &cobra.Command{
		Use:   "dump DIR|FILE",
		Short: "Print the records of a metadata log or a snapshot",
		Long: `Print every record of a segment (.log), of a snapshot (.checkpoint), or of all
of them in a directory: a log directory or the metadata log's own. The node may
run, nothing is locked or changed; a copy, and Apache Kafka's files, are fine.`,
		Example: `  klamm metadata dump /var/lib/klamm
  klamm metadata dump --json 00000000000000000000.log | jq .`,
		Args: oneArg("directory or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspect.Dump(cmd.OutOrStdout(), args[0], options)
		},
	}
	cmd.Flags().BoolVar(&options.JSON, "json", false, "one JSON object per record")
	return cmd
}
