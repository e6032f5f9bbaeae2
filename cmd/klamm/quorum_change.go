package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

func newQuorumAddCommand() *cobra.Command {
	return changeCommand("add", "Give a controller a vote that follows the metadata",
		`Make a controller a voter. It has been formatted with --no-initial-controllers, runs,
and is an observer by now (klamm quorum status). It is fed until it has everything,
then it votes. The command waits for that.`,
		func(ctx context.Context, q *quorumChange) error { return q.add(ctx) })
}

func newQuorumRemoveCommand() *cobra.Command {
	return changeCommand("remove", "Take a controller's vote",
		`Make a voter an observer. It may be dead; if it is the active controller, another
takes over. What would leave too few living voters to agree on anything is refused.`,
		func(ctx context.Context, q *quorumChange) error { return q.remove(ctx) })
}

func newQuorumReplaceCommand() *cobra.Command {
	return changeCommand("replace", "Put a controller's new disk in the place of the one that it lost",
		`A controller that lost its disk is not what it was: its votes and records are gone, so
it is not taken for the voter. Format its new disk with --no-initial-controllers, start
it, and replace: the lost disk loses its vote, and the new one gets one as soon as it
has everything. The other voters must be alive, or most of them.`,
		func(ctx context.Context, q *quorumChange) error { return q.replace(ctx) })
}

func changeCommand(name, short, long string, run func(context.Context, *quorumChange) error) *cobra.Command {
	var flags clusterFlags
	var directory string
	cmd := &cobra.Command{
		Use: name + " NODE", Short: short, Long: long,
		Example: "  klamm quorum " + name + " 3 --bootstrap-controller localhost:9093",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := oneArg("node id of a controller")(cmd, args); err != nil {
				return err
			}
			if !flags.given() {
				return usagef("%s needs --bootstrap-server or --bootstrap-controller", cmd.CommandPath())
			}
			return flags.check(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || id < 0 {
				return usagef("%q is no node id", args[0])
			}
			if _, err := protocol.ParseUUID(directory); directory != "" && err != nil {
				return usagef("--directory %q is no directory id", directory)
			}
			q := &quorumChange{flags: &flags, node: int32(id), directory: directory, say: func(format string, args ...any) {
				fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
			}}
			ctx, cancel := context.WithTimeout(cmd.Context(), flags.timeout)
			defer cancel()
			return run(ctx, q)
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&directory, "directory", "", "the id of its directory, where the node has been seen with several")
	return cmd
}

// quorumChange changes the voters of a running cluster, Apache Kafka's too.
type quorumChange struct {
	flags     *clusterFlags
	node      int32
	directory string
	say       func(format string, args ...any)
}

func (q *quorumChange) add(ctx context.Context) error {
	status, err := q.ask(ctx)
	if err != nil {
		return err
	}
	if v, ok := find(status.Voters, q.node, ""); ok {
		return fmt.Errorf("controller %d is a voter already, with directory %s; klamm quorum replace puts another in its place", q.node, v.DirectoryID)
	}
	o, err := q.awaitObserver(ctx, status, "")
	if err != nil {
		return err
	}
	return q.addObserver(ctx, o)
}

func (q *quorumChange) remove(ctx context.Context) error {
	status, err := q.ask(ctx)
	if err != nil {
		return err
	}
	v, ok := find(status.Voters, q.node, q.directory)
	if !ok {
		return fmt.Errorf("controller %d is no voter; those are %s", q.node, nodes(status.Voters))
	}
	return q.removeVoter(ctx, v)
}

func (q *quorumChange) replace(ctx context.Context) error {
	status, err := q.ask(ctx)
	if err != nil {
		return err
	}
	old, ok := find(status.Voters, q.node, "")
	if !ok {
		return fmt.Errorf("controller %d is no voter; those are %s. klamm quorum add makes it one", q.node, nodes(status.Voters))
	}
	o, err := q.awaitObserver(ctx, status, old.DirectoryID)
	if err != nil {
		return err
	}
	if err := q.removeVoter(ctx, old); err != nil {
		return err
	}
	if err := q.addObserver(ctx, o); err != nil {
		return fmt.Errorf("the lost disk has no vote any more, and the new one none yet (klamm quorum add %d tries again): %w", q.node, err)
	}
	return nil
}

// ask returns the quorum, which has to be a dynamic one.
func (q *quorumChange) ask(ctx context.Context) (*quorumStatus, error) {
	status, err := askQuorum(ctx, q.flags)
	if err != nil {
		return nil, err
	}
	if len(status.Voters) > 0 && status.Voters[0].DirectoryID == protocol.ZeroUUID.String() {
		return nil, errors.New("the voters are those of controller.quorum.voters: " +
			"kafka-features upgrade --feature kraft.version=1 moves them into the metadata, where they can change")
	}
	return status, nil
}

// awaitObserver waits until the node follows the metadata, as long as there is time.
func (q *quorumChange) awaitObserver(ctx context.Context, status *quorumStatus, lost string) (replicaStatus, error) {
	for {
		o, err := q.observer(status, lost)
		if err == nil {
			return o, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return replicaStatus{}, err
		}
		if next, aerr := q.ask(ctx); aerr == nil {
			status = next
		}
	}
}

// observer is the node as it follows the metadata, with another directory than the
// one that it has lost.
func (q *quorumChange) observer(status *quorumStatus, lost string) (replicaStatus, error) {
	var found []replicaStatus
	for _, o := range status.Observers {
		if o.Node == q.node && o.DirectoryID != lost && (q.directory == "" || q.directory == o.DirectoryID) {
			found = append(found, o)
		}
	}
	// One that was wiped is listed for a while with what it had.
	slices.SortFunc(found, func(a, b replicaStatus) int { return int(b.LastFetchMs/1000 - a.LastFetchMs/1000) })
	switch {
	case len(found) == 0 && lost != "":
		return replicaStatus{}, fmt.Errorf("controller %d does not follow the metadata with another directory than %s: "+
			"format its new disk with --no-initial-controllers (and controller.quorum.bootstrap.servers in place of controller.quorum.voters), and start it", q.node, lost)
	case len(found) == 0:
		return replicaStatus{}, fmt.Errorf("controller %d does not follow the metadata: format it with --no-initial-controllers, and start it", q.node)
	case len(found) > 1 && found[0].LastFetchMs-found[1].LastFetchMs < 5000:
		return replicaStatus{}, fmt.Errorf("controller %d follows the metadata with directories %s and %s at the same time: say by --directory which one is meant",
			q.node, found[0].DirectoryID, found[1].DirectoryID)
	}
	return found[0], nil
}

func (q *quorumChange) removeVoter(ctx context.Context, v replicaStatus) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = v.Node, mustUUID(v.DirectoryID)
	err := q.flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		resp := answer.(*kmsg.RemoveRaftVoterResponse)
		return final(protocol.Error(resp.ErrorCode), resp.ErrorMessage)
	})
	if errors.Is(err, protocol.ErrVoterNotFound) {
		// An attempt whose answer was lost may have done it.
		if status, aerr := q.ask(ctx); aerr == nil {
			if _, votes := find(status.Voters, v.Node, v.DirectoryID); !votes {
				err = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("remove controller %d with directory %s: %w", v.Node, v.DirectoryID, err)
	}
	q.say("controller %d with directory %s has no vote any more", v.Node, v.DirectoryID)
	return nil
}

func (q *quorumChange) addObserver(ctx context.Context, o replicaStatus) error {
	began := time.Now()
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = o.Node, mustUUID(o.DirectoryID)
	err := q.flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		listener, err := controllerEndpoint(ctx, conn, len(q.flags.controllers) > 0, o.Node)
		if err != nil {
			return err
		}
		req.Listeners = []kmsg.AddRaftVoterRequestListener{listener}
		deadline, _ := ctx.Deadline()
		req.TimeoutMillis = timeoutMs(time.Until(deadline))
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		resp := answer.(*kmsg.AddRaftVoterResponse)
		return final(protocol.Error(resp.ErrorCode), resp.ErrorMessage)
	})
	if errors.Is(err, protocol.ErrDuplicateVoter) {
		if status, aerr := q.ask(ctx); aerr == nil {
			if _, votes := find(status.Voters, o.Node, o.DirectoryID); votes {
				err = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("add controller %d with directory %s: %w", o.Node, o.DirectoryID, err)
	}
	q.say("controller %d with directory %s votes, after %v", o.Node, o.DirectoryID, time.Since(began).Round(time.Millisecond))
	return nil
}

// timeoutMs is a timeout as a request has it: one that leaves the controller a moment.
func timeoutMs(d time.Duration) int32 {
	return int32(min(max(d, time.Second).Milliseconds(), math.MaxInt32))
}

// controllerEndpoint is where a registered controller listens, under the name that
// the voters' listeners have.
func controllerEndpoint(ctx context.Context, conn *client.Conn, isController bool, node int32) (kmsg.AddRaftVoterRequestListener, error) {
	listener := kmsg.NewAddRaftVoterRequestListener()
	answer, err := conn.Request(ctx, describeQuorum())
	if err != nil {
		return listener, err
	}
	resp := answer.(*kmsg.DescribeQuorumResponse)
	_, leader, err := readQuorum(resp)
	if err != nil {
		return listener, err
	}
	for _, n := range resp.Nodes {
		if len(n.Listeners) > 0 {
			listener.Name = n.Listeners[0].Name
		}
	}
	if listener.Name == "" {
		return listener, finalError{errors.New("the voters' listeners are not known")}
	}
	if !isController {
		if conn, err = dial(ctx, leader); err != nil {
			return listener, err
		}
		defer conn.Close()
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 2 // controllers
	if answer, err = conn.Request(ctx, req); err != nil {
		return listener, err
	}
	cluster := answer.(*kmsg.DescribeClusterResponse)
	if code := protocol.Error(cluster.ErrorCode); code != protocol.None {
		return listener, refusal(code, cluster.ErrorMessage)
	}
	for _, b := range cluster.Brokers {
		if b.NodeID == node {
			listener.Host, listener.Port = b.Host, uint16(b.Port)
			return listener, nil
		}
	}
	return listener, fmt.Errorf("node %d is not registered as a controller", node)
}

// final is the error of an answer: one that asking again does not mend, unless the
// leader has changed or something else was under way.
func final(code protocol.Error, text *string) error {
	switch code {
	case protocol.None:
		return nil
	case protocol.ErrNotLeaderForPartition, protocol.ErrNotController, protocol.ErrRequestTimedOut:
		return refusal(code, text)
	}
	return finalError{refusal(code, text)}
}

// find looks for a node among replicas; any directory is meant where none is given.
func find(replicas []replicaStatus, node int32, directory string) (replicaStatus, bool) {
	i := slices.IndexFunc(replicas, func(r replicaStatus) bool {
		return r.Node == node && (directory == "" || r.DirectoryID == directory)
	})
	if i < 0 {
		return replicaStatus{}, false
	}
	return replicas[i], true
}

func nodes(replicas []replicaStatus) string {
	var ids []string
	for _, r := range replicas {
		ids = append(ids, strconv.Itoa(int(r.Node)))
	}
	return strings.Join(ids, ", ")
}

// mustUUID reads a directory id that was printed here.
func mustUUID(text string) protocol.UUID {
	id, err := protocol.ParseUUID(text)
	if err != nil {
		panic(fmt.Sprintf("klamm: %q is no directory id: %v", text, err))
	}
	return id
}
