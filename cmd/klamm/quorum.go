package main

import "github.com/spf13/cobra"

func newQuorumCommand() *cobra.Command {
	return group("quorum", "Look at the controllers of a cluster, and change who votes",
		newQuorumStatusCommand(), newQuorumAddCommand(), newQuorumRemoveCommand(), newQuorumReplaceCommand())
}
