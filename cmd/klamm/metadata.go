package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/inspect"
)

func newMetadataCommand() *cobra.Command {
	return group("metadata", "Look at a cluster's metadata, and rescue it", newDumpCommand(), newShowCommand(), newDiffCommand(),
		newHistoryCommand(), newExplainCommand(), newDigestCommand(), newRecoverCommand())
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

func newShowCommand() *cobra.Command {
	var options inspect.Options
	var moment string
	cmd := &cobra.Command{
		Use:   "show DIR|FILE [PATH]",
		Short: "Print the cluster's state",
		Long: `Print the cluster as its metadata has it, now or at an earlier offset or time:
all of it, or the part at PATH, such as topics/orders/partitions/0. The node may
run, nothing is locked or changed; a snapshot alone, a copy, and Apache Kafka's
files, are fine.`,
		Example: `  klamm metadata show /var/lib/klamm topics
  klamm metadata show --at 2026-01-31T12:00:00Z --json /var/lib/klamm`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("%s takes a directory or file and perhaps a path, not %d; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			img, err := loadMetadata(args[0], moment)
			if err != nil {
				return err
			}
			path := ""
			if len(args) > 1 {
				path = args[1]
			}
			return inspect.Show(cmd.OutOrStdout(), img, path, options)
		},
	}
	cmd.Flags().StringVar(&moment, "at", "", "OFFSET or TIME (2006-01-02T15:04:05Z): the state as it was then")
	cmd.Flags().BoolVar(&options.JSON, "json", false, "one JSON object")
	return cmd
}

func newDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Print what differs between two states of a cluster",
		Long: `Print every value that differs between two states, each a directory or file with
@OFFSET or @TIME behind it for the state as it was then.`,
		Example: `  klamm metadata diff /var/lib/klamm@1200 /var/lib/klamm
  klamm metadata diff /backup/00000000000000001200-0000000003.checkpoint /var/lib/klamm`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("%s takes two states, not %d; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var images [2]*metadata.Image
			for i, arg := range args {
				path, moment := arg, ""
				if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
					if at := strings.LastIndexByte(arg, '@'); at > 0 {
						path, moment = arg[:at], arg[at+1:]
					}
				}
				var err error
				if images[i], err = loadMetadata(path, moment); err != nil {
					return err
				}
			}
			return inspect.ShowDiff(cmd.OutOrStdout(), images[0], images[1])
		},
	}
}

func newHistoryCommand() *cobra.Command {
	var options inspect.Options
	var moment string
	cmd := &cobra.Command{
		Use:   "history DIR|FILE KIND [NAME]",
		Short: "Print every change of one object and its cause",
		Long: `Print every record about one object, with offset, time, epoch, cause and what it
changed: a topic, partition (NAME is TOPIC/N), broker, the config of a resource
(NAME is topics/orders, brokers/1, or brokers for the default), acl (an id, or
all), or user. It reaches as far back as the log, and says how far. The causes
are those that klamm's controllers wrote; Apache Kafka's write none.`,
		Example: `  klamm metadata history /var/lib/klamm partition orders/0
  klamm metadata history --json /var/lib/klamm broker 3`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usagef("%s takes a directory or file, a kind and a name, not %d; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := inspect.ParseObject(args[1], strings.Join(args[2:], ""))
			if err != nil {
				return usageError{err}
			}
			at, err := parseMoment(moment)
			if err != nil {
				return err
			}
			history, err := inspect.LoadHistory(args[0], at, object)
			if err != nil {
				return err
			}
			return inspect.ShowHistory(cmd.OutOrStdout(), history, object, options)
		},
	}
	cmd.Flags().StringVar(&moment, "at", "", "OFFSET or TIME (2006-01-02T15:04:05Z): the history until then")
	cmd.Flags().BoolVar(&options.JSON, "json", false, "one JSON object per record")
	return cmd
}

func newExplainCommand() *cobra.Command {
	var moment string
	cmd := &cobra.Command{
		Use:   "explain DIR|FILE TOPIC/PARTITION",
		Short: "Say why a partition is in the state it is in",
		Long: `Say who leads a partition, who is in sync, since when and why, and which replicas
have to return.`,
		Example: `  klamm metadata explain /var/lib/klamm orders/0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("%s takes a directory or file and a partition, not %d; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			partition, err := inspect.ParseObject("partition", args[1])
			if err != nil {
				return usageError{err}
			}
			at, err := parseMoment(moment)
			if err != nil {
				return err
			}
			return inspect.Explain(cmd.OutOrStdout(), args[0], at, partition)
		},
	}
	cmd.Flags().StringVar(&moment, "at", "", "OFFSET or TIME (2006-01-02T15:04:05Z): as it was then")
	return cmd
}

func newDigestCommand() *cobra.Command {
	var moment string
	cmd := &cobra.Command{
		Use:   "digest DIR|FILE",
		Short: "Print a hash of the cluster's state",
		Long: `Print a hash of the cluster's metadata, now or at an earlier offset or time: it is
the same on every node at the same offset, whether it replayed the log or began
with a snapshot.`,
		Example: `  klamm metadata digest --at 1200 /var/lib/klamm`,
		Args:    oneArg("directory or file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			img, err := loadMetadata(args[0], moment)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "offset %d epoch %d digest %s\n", img.Offset(), img.Epoch(), img.Digest())
			return err
		},
	}
	cmd.Flags().StringVar(&moment, "at", "", "OFFSET or TIME (2006-01-02T15:04:05Z): the state as it was then")
	return cmd
}

// loadMetadata reads the state at a moment, "" for the newest.
func loadMetadata(path, moment string) (*metadata.Image, error) {
	at, err := parseMoment(moment)
	if err != nil {
		return nil, err
	}
	return inspect.Load(path, at)
}

func parseMoment(text string) (inspect.At, error) {
	if text == "" {
		return inspect.At{}, nil
	}
	at, err := inspect.ParseAt(text)
	if err != nil {
		return at, usageError{err}
	}
	return at, nil
}
