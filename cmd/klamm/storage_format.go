package main

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/config"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/metadata/snapshot"
	"github.com/klamm/klamm/protocol"
)

// formatFlags are the options of Kafka's storage tool.
type formatFlags struct {
	configFlags
	clusterID            string
	ignoreFormatted      bool
	release              string
	features, scram      []string
	standalone           bool
	noInitialControllers bool
	initialControllers   string
}

func newFormatCommand() *cobra.Command {
	var flags formatFlags
	cmd := &cobra.Command{
		Use:   "format -t CLUSTER -c FILE",
		Short: "Prepare the directories of a new node",
		Long: `Write meta.properties into every log directory of a server.properties, and a
controller's first metadata. All nodes of a cluster are formatted with the same
cluster id, release, features and credentials.

The controllers of a cluster are named by controller.quorum.voters, or the metadata
itself names them, and they can come and go (klamm quorum). For the latter, with
controller.quorum.bootstrap.servers, the first controller is formatted with
--standalone, or all of the first ones with the same --initial-controllers, where
DIRECTORY is a fresh id for each (klamm storage random-uuid); each that is to be
added later with --no-initial-controllers. Brokers without the controller role are
formatted with none of these.`,
		Example: `  klamm storage format -t $(klamm storage random-uuid) -c server.properties
  klamm storage format -t CLUSTER -c FILE --release-version 4.3-IV0
  klamm storage format -t CLUSTER -c FILE --feature group.version=0
  klamm storage format -t CLUSTER -c FILE --standalone
  klamm storage format -t CLUSTER -c FILE --initial-controllers 1@one:9093:$ID1,2@two:9093:$ID2,3@three:9093:$ID3
  klamm storage format -t CLUSTER -c FILE --no-initial-controllers
  klamm storage format -t CLUSTER -c FILE --add-scram 'SCRAM-SHA-512=[name=admin,password=secret]'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFormat(cmd, flags) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.clusterID, "cluster-id", "t", "", "the cluster's id (klamm storage random-uuid makes one)")
	flags.register(cmd)
	f.BoolVarP(&flags.ignoreFormatted, "ignore-formatted", "g", false, "leave directories that are formatted already, instead of refusing")
	f.StringVarP(&flags.release, "release-version", "r", "", "the release whose metadata.version and features the cluster begins with (default "+feature.Latest.String()+")")
	f.StringArrayVarP(&flags.features, "feature", "f", nil, "FEATURE=LEVEL that differs from the release's (repeat for more)")
	f.StringArrayVarP(&flags.scram, "add-scram", "S", nil, "a credential, such as SCRAM-SHA-256=[name=alice,password=secret] (repeat for more)")
	f.BoolVarP(&flags.standalone, "standalone", "s", false, "make this controller the only voter of a dynamic quorum")
	f.BoolVarP(&flags.noInitialControllers, "no-initial-controllers", "N", false, "name no voters: this controller joins others, and is added later")
	f.StringVarP(&flags.initialControllers, "initial-controllers", "I", "", "the voters of a dynamic quorum, ID@HOST:PORT:DIRECTORY, separated by commas")
	return cmd
}

func runFormat(cmd *cobra.Command, flags formatFlags) error {
	if flags.clusterID == "" {
		return usagef("%s needs --cluster-id (klamm storage random-uuid makes one) and --config", cmd.CommandPath())
	}
	if strings.ContainsAny(flags.clusterID, " \t\r\n=") {
		return usagef("--cluster-id %q: valid is a text without blanks, such as the ones of klamm storage random-uuid", flags.clusterID)
	}
	cfg, err := flags.load(cmd)
	if err != nil {
		return err
	}
	p, err := newFormatPlan(cfg, flags)
	if err != nil {
		return err
	}
	formatted, err := formatDirs(cfg, p)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, dir := range formatted {
		kind := "data directory"
		switch {
		case dir == cfg.Dirs.Metadata && p.votes(cfg.Node.ID):
			kind = "dynamic metadata voter directory"
		case dir == cfg.Dirs.Metadata && p.quorum.Voters != nil:
			kind = "dynamic metadata directory"
		case dir == cfg.Dirs.Metadata:
			kind = "metadata directory"
		}
		fmt.Fprintf(out, "Formatting %s %s with metadata.version %s.\n", kind, dir, p.level)
	}
	if len(formatted) == 0 {
		fmt.Fprintln(out, "All of the log directories are already formatted.")
	}
	return nil
}

// newFormatPlan decides what goes into the directories. Its errors are mistakes
// of the caller, in the words of Kafka's tool where it has some.
func newFormatPlan(cfg *config.Config, flags formatFlags) (formatPlan, error) {
	p := formatPlan{clusterID: flags.clusterID, how: formatAll, directory: protocol.NewUUID()}
	if flags.ignoreFormatted {
		p.how = formatMissing
	}
	if err := p.setQuorum(cfg, flags); err != nil {
		return p, err
	}
	levels, err := parseFeatures(flags.release, flags.features)
	if err != nil {
		return p, err
	}
	if err := p.setFeatures(levels, len(cfg.Dirs.Log)); err != nil {
		return p, err
	}
	if len(flags.scram) > 0 && !p.level.HasScram() {
		return p, usagef("SCRAM is only supported in metadata.version 3.5-IV2 or later, and this cluster begins with %s", p.level)
	}
	for _, text := range flags.scram {
		credential, err := parseScram(text)
		if err != nil {
			return p, usagef("--add-scram: %w", err)
		}
		p.records = append(p.records, credential)
	}
	return p, nil
}

// setQuorum decides where the voters are: in the configuration, or in the
// checkpoint.
func (p *formatPlan) setQuorum(cfg *config.Config, flags formatFlags) error {
	chosen := 0
	for _, given := range []bool{flags.standalone, flags.noInitialControllers, flags.initialControllers != ""} {
		if given {
			chosen++
		}
	}
	dynamic := flags.standalone || flags.initialControllers != ""
	switch {
	case chosen > 1:
		return usagef("--standalone, --initial-controllers and --no-initial-controllers exclude each other: give one of them")
	case dynamic && len(cfg.Quorum.Voters) > 0:
		return usagef("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "+
			"If you want to use dynamic quorum, please remove controller.quorum.voters from %s and specify controller.quorum.bootstrap.servers instead.", cfg.File)
	case dynamic && !cfg.Node.IsController:
		return usagef("%s: process.roles has no controller, and only controllers vote: leave --standalone and --initial-controllers out", cfg.File)
	case !cfg.Node.IsController || len(cfg.Quorum.Voters) > 0:
		return nil
	case chosen == 0:
		return usagef("Because controller.quorum.voters is not set on this controller, you must specify one of the following: " +
			"--standalone, --initial-controllers, or --no-initial-controllers.")
	case flags.noInitialControllers:
		p.quorum = snapshot.Quorum{Version: 1}
		return nil
	}
	if flags.initialControllers != "" {
		voters, err := parseInitialControllers(flags.initialControllers, cfg.Listeners.Controller[0].Name)
		if err != nil {
			return usagef("--initial-controllers %s: %w", flags.initialControllers, err)
		}
		for _, v := range voters {
			if v.ID == cfg.Node.ID {
				p.directory = v.DirectoryID
			}
		}
		p.quorum = snapshot.Quorum{Version: 1, Voters: &record.Voters{Voters: voters}}
		return nil
	}
	voter := record.Voter{ID: cfg.Node.ID, MaxKRaft: 1}
	l := cfg.Listeners.Controller[0]
	host := l.Host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		// A listener on every address is reached by the name that all are given.
		var err error
		if host, _, err = net.SplitHostPort(cfg.Quorum.Bootstrap[0]); err != nil {
			return err
		}
	}
	voter.Endpoints = []record.VoterEndpoint{{Name: l.Name, Host: host, Port: uint16(l.Port)}}
	voter.DirectoryID = p.directory
	p.quorum = snapshot.Quorum{Version: 1, Voters: &record.Voters{Voters: []record.Voter{voter}}}
	return nil
}

// votes tells whether a node is one of the voters that the quorum begins with.
func (p *formatPlan) votes(id protocol.NodeID) bool {
	return p.quorum.Voters != nil && slices.ContainsFunc(p.quorum.Voters.Voters, func(v record.Voter) bool { return v.ID == id })
}

// parseInitialControllers reads ID@HOST:PORT:DIRECTORY,... of controllers that all
// listen under the same name.
func parseInitialControllers(text, listener string) ([]record.Voter, error) {
	var voters []record.Voter
	for entry := range strings.SplitSeq(text, ",") {
		v, err := parseInitialController(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		for _, other := range voters {
			if other.ID == v.ID {
				return nil, usagef("node %d is there twice", v.ID)
			}
			if other.DirectoryID == v.DirectoryID {
				return nil, usagef("directory %s is there twice", v.DirectoryID)
			}
		}
		v.Endpoints[0].Name = listener
		voters = append(voters, v)
	}
	slices.SortFunc(voters, func(a, b record.Voter) int { return cmp.Compare(a.ID, b.ID) })
	return voters, nil
}

// parseInitialController reads ID@HOST:PORT:DIRECTORY.
func parseInitialController(text string) (record.Voter, error) {
	at := strings.LastIndex(text, ":")
	if at < 0 {
		return record.Voter{}, usagef("%q: valid is ID@HOST:PORT:DIRECTORY, with a directory id of klamm storage random-uuid", text)
	}
	dir, err := protocol.ParseUUID(text[at+1:])
	if err != nil || dir == protocol.ZeroUUID {
		return record.Voter{}, usagef("%q is no directory id; klamm storage random-uuid makes one", text[at+1:])
	}
	voter, err := config.ParseVoter(text[:at])
	if err != nil {
		return record.Voter{}, err
	}
	return record.Voter{
		ID: voter.ID, DirectoryID: dir, MaxKRaft: 1, Endpoints: []record.VoterEndpoint{{Host: voter.Host, Port: uint16(voter.Port)}},
	}, nil
}
