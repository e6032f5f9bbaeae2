package main

import (
	"github.com/spf13/cobra"

	groups "github.com/klamm/klamm/broker/coordinator/group"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
)

func newLogCommand() *cobra.Command {
	return group("log", "Look at the logs of partitions", newLogDumpCommand(), newLogStraysCommand())
}

func newLogDumpCommand() *cobra.Command {
	options := storage.DumpOptions{Texts: map[string]func(key, value []byte) (string, string, bool){
		protocol.OffsetsTopic: groups.RecordText,
	}}
	cmd := &cobra.Command{
		Use:   "dump FILE|DIR",
		Short: "Print the files of a partition's log",
		Long: `Print a segment (.log), an index (.index, .timeindex, .txnindex), a snapshot of
producers (.snapshot), or all of them in a partition's directory or a log
directory, in the lines of Kafka's own dump tool. The node may run, nothing is
locked or changed; Apache Kafka's files are fine.`,
		Example: `  klamm log dump /var/lib/klamm/orders-0
  klamm log dump --records /var/lib/klamm/orders-0/00000000000000000000.log`,
		Args: oneArg("file or directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return storage.Dump(cmd.OutOrStdout(), args[0], options)
		},
	}
	cmd.Flags().BoolVar(&options.Records, "records", false, "every record with its key and value, those of __consumer_offsets as what they say")
	return cmd
}
