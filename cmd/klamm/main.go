// Command klamm runs a node, prepares its directories and reads its metadata.
//
//	klamm server --dev                      a development node on localhost:9092
//	klamm server FILE                       a node from a server.properties
//	klamm storage format|info|random-uuid   directories and ids, and more of Kafka's storage tool
//	klamm metadata dump|show|diff|history|explain|digest
//	                                        what a metadata log or snapshot holds
//	klamm metadata recover DIR...           a new quorum, where most controllers were lost
//	klamm quorum status                     who leads, who votes, how far everybody is
//	klamm quorum add|remove|replace NODE    who votes
//	klamm log dump FILE|DIR                 what a partition's files hold
//	klamm log strays DIR...                 what was set aside, and its removal
//	klamm replicas verify TOPIC             whether all brokers hold the same
//	klamm reassign status                   which partitions move, and how far they are
//	klamm can-stop NODE...                  whether anybody would notice
//	klamm version
//
// Every subcommand is a file. They parse flags, build a config.Config and
// call; what a node is lives in cmd/node. Only main exits: 0 after a clean
// stop, 1 when something failed, 2 when the command line or the configuration
// is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is stamped by the Makefile with -ldflags.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// The first signal asks for a clean stop. After it the default action is
	// back, so a second one ends a stop that takes too long.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: arguments in, exit code out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "klamm:", err)
		return 2
	}
	fmt.Fprintln(stderr, "klamm:", err)
	return 1
}

// usageError is a mistake of the caller: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "klamm",
		Short:         "A Kafka-compatible broker whose metadata is a replicated log",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(newServerCommand(), newStorageCommand(), newMetadataCommand(), newQuorumCommand(), newLogCommand(), newReplicasCommand(), newReassignCommand(), newCanStopCommand(), newVersionCommand())
	return root
}

// newHelpCommand is cobra's, which takes what it does not know for the root.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Say what a command does",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q; see klamm --help", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// noArgs and oneArg are cobra's, with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s does not know %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one %s, not %d; see %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
