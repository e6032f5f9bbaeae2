package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

func newCanStopCommand() *cobra.Command {
	var flags clusterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "can-stop NODE...",
		Short: "Say whether nodes can be stopped without anybody noticing",
		Long: `Ask a running cluster, Apache Kafka's too, what would become of it without these nodes,
all of them at once. They can be stopped if every partition that they are in sync
with keeps as many in-sync replicas as min.insync.replicas asks for, and if a majority of
the voters is left that follows the active controller, which they have 5 s
to show. Otherwise it says which partitions would suffer, and how:

  offline       no in-sync replica is left: neither produced to nor consumed from
  no acks=all   too few are left: whoever produces with acks=all is refused
  leaderless    it has no leader as it is, and one of these nodes may be awaited

The exit code is 0 if they can be stopped. It is a look and not a promise: what is
safe now is no longer so when another node fails.`,
		Example: `  klamm can-stop 2 --bootstrap-server localhost:9092
  until klamm can-stop 2 --bootstrap-server localhost:9092; do sleep 1; done`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := nodeIDs(cmd, args)
			if err == nil {
				err = flags.check(cmd)
			}
			if err != nil {
				return err
			}
			if !flags.given() {
				return usagef("%s needs --bootstrap-server", cmd.CommandPath())
			}
			answer, err := askCanStop(cmd.Context(), &flags, nodes)
			if err != nil {
				return err
			}
			if err := answer.print(cmd.OutOrStdout(), asJSON); err != nil || answer.Safe {
				return err
			}
			return fmt.Errorf("not to be stopped now: %s", list(nodes))
		},
	}
	flags.registerBrokers(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func nodeIDs(cmd *cobra.Command, args []string) ([]int32, error) {
	if len(args) == 0 {
		return nil, usagef("%s takes one node or more; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	var nodes []int32
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("%q is no id of a node", arg)
		}
		nodes = append(nodes, int32(id))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// canStop is the answer.
type canStop struct {
	Safe       bool        `json:"safe"`
	Nodes      []int32     `json:"nodes"`
	Partitions []suffering `json:"partitions"` // that would suffer
	Voters     votersLeft  `json:"voters"`
}

// suffering is a partition that would, and why.
type suffering struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Why       string  `json:"why"`
	Leader    int32   `json:"leader"`
	ISR       []int32 `json:"isr"`
	Replicas  []int32 `json:"replicas"`
	MinInSync int     `json:"minInSync"` // no more than there are replicas
}

// votersLeft are the voters of the quorum, those of them that would follow or lead,
// and how many of those it takes. Concerned says that one of the nodes is a voter.
type votersLeft struct {
	Concerned bool `json:"concerned"`
	All       int  `json:"all"`
	Left      int  `json:"left"`
	Needed    int  `json:"needed"`
}

// voterPatience is for how long a voter is awaited that has not caught up since the
// question: Apache Kafka's fetch twice a second, and one that died a moment ago is
// otherwise taken for one that follows.
const voterPatience = 5 * time.Second

// askCanStop asks a cluster.
func askCanStop(ctx context.Context, flags *clusterFlags, nodes []int32) (*canStop, error) {
	var answer *canStop
	err := flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		began := time.Now()
		ask := func(ctx context.Context) (*quorumStatus, error) { return voters(ctx, conn) }
		quorum, err := ask(ctx)
		if err != nil {
			return err
		}
		if err := checkNodes(ctx, conn, quorum, nodes); err != nil {
			return err
		}
		// Who has died just now is not in sync any more either, when this is done.
		left, err := votersWithout(ctx, ask, quorum, nodes, began.Add(min(voterPatience, flags.timeout/2)))
		if err != nil {
			return err
		}
		req := kmsg.NewPtrMetadataRequest() // all topics
		req.AllowAutoTopicCreation = false
		resp, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		topics := resp.(*kmsg.MetadataResponse).Topics
		minInSync, err := minInSyncReplicas(ctx, conn, topics)
		if err != nil {
			return err
		}
		answer = &canStop{Nodes: nodes, Partitions: wouldSuffer(topics, minInSync, nodes), Voters: left}
		answer.Safe = len(answer.Partitions) == 0 && (!answer.Voters.Concerned || answer.Voters.Left >= answer.Voters.Needed)
		return nil
	})
	return answer, err
}

func voters(ctx context.Context, conn *client.Conn) (*quorumStatus, error) {
	answer, err := conn.Request(ctx, describeQuorum())
	if err != nil {
		return nil, err
	}
	quorum, _, err := readQuorum(answer.(*kmsg.DescribeQuorumResponse))
	return quorum, err
}

// votersWithout counts the voters without nodes, of which enough have until the
// deadline to show that they have caught up since the quorum was asked at first.
func votersWithout(ctx context.Context, ask func(context.Context) (*quorumStatus, error), first *quorumStatus, nodes []int32, deadline time.Time) (votersLeft, error) {
	since := latest(first)
	for quorum := first; ; {
		left := wouldVote(quorum, since, nodes)
		if !left.Concerned || left.Left >= left.Needed || time.Now().After(deadline) {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return votersLeft{}, ctx.Err()
		case <-time.After(pause):
		}
		var err error
		if quorum, err = ask(ctx); err != nil {
			return votersLeft{}, err
		}
		if quorum.Epoch != first.Epoch { // another one's clock
			return votersLeft{}, errors.New("the active controller has changed meanwhile")
		}
	}
}

// checkNodes refuses nodes that the cluster has never heard of: one that was misspelt
// could always be stopped.
func checkNodes(ctx context.Context, conn *client.Conn, quorum *quorumStatus, nodes []int32) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, true
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.DescribeClusterResponse)
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return refusal(code, resp.ErrorMessage)
	}
	for _, id := range nodes {
		broker := slices.ContainsFunc(resp.Brokers, func(b kmsg.DescribeClusterResponseBroker) bool { return b.NodeID == id })
		if !broker && !slices.ContainsFunc(slices.Concat(quorum.Voters, quorum.Observers), func(r replicaStatus) bool { return r.Node == id }) {
			return finalError{fmt.Errorf("the cluster has no node %d", id)}
		}
	}
	return nil
}

// minInSyncReplicas asks what topics are set to, or their brokers are.
func minInSyncReplicas(ctx context.Context, conn *client.Conn, topics []kmsg.MetadataResponseTopic) (map[string]int, error) {
	const key = "min.insync.replicas"
	found := make(map[string]int, len(topics))
	for some := range slices.Chunk(topics, 1000) {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for i := range some {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, *some[i].Topic, []string{key}
			req.Resources = append(req.Resources, r)
		}
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
			switch code := protocol.Error(r.ErrorCode); {
			case code == protocol.ErrUnknownTopicOrPartition: // deleted meanwhile
				continue
			case code != protocol.None:
				return nil, fmt.Errorf("topic %s: %w", r.ResourceName, refusal(code, r.ErrorMessage))
			case len(r.Configs) != 1 || r.Configs[0].Value == nil:
				return nil, fmt.Errorf("topic %s: the answer to DescribeConfigs lacks %s", r.ResourceName, key)
			}
			if found[r.ResourceName], err = strconv.Atoi(*r.Configs[0].Value); err != nil {
				return nil, fmt.Errorf("topic %s: %s: %w", r.ResourceName, key, err)
			}
		}
	}
	return found, nil
}

// wouldSuffer are the partitions that would miss nodes, in order.
func wouldSuffer(topics []kmsg.MetadataResponseTopic, minInSync map[string]int, nodes []int32) []suffering {
	stopped := func(id int32) bool { return slices.Contains(nodes, id) }
	all := []suffering{}
	for i := range topics {
		required, ok := minInSync[*topics[i].Topic]
		if !ok {
			continue
		}
		for _, p := range topics[i].Partitions {
			s := suffering{
				Topic: *topics[i].Topic, Partition: p.Partition, Leader: p.Leader, ISR: p.ISR, Replicas: p.Replicas,
				MinInSync: min(required, len(p.Replicas)),
			}
			left := slices.DeleteFunc(slices.Clone(p.ISR), stopped)
			switch {
			case p.Leader < 0 && slices.ContainsFunc(p.Replicas, stopped):
				s.Why = "leaderless"
			case len(left) == len(p.ISR):
				continue
			case len(left) == 0:
				s.Why = "offline"
			case len(left) < s.MinInSync:
				s.Why = "no acks=all"
			default:
				continue
			}
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b suffering) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// latest is the time at the leader, which it has for when it had caught up itself.
func latest(quorum *quorumStatus) int64 {
	now := int64(-1)
	for _, r := range slices.Concat(quorum.Voters, quorum.Observers) {
		now = max(now, r.CaughtUpMs)
	}
	return now
}

// wouldVote counts the voters without nodes: those who follow have caught up later than
// since, which is a time of the leader's, in ms.
func wouldVote(quorum *quorumStatus, since int64, nodes []int32) votersLeft {
	v := votersLeft{All: len(quorum.Voters), Needed: len(quorum.Voters)/2 + 1}
	for _, r := range quorum.Voters {
		switch {
		case slices.Contains(nodes, r.Node):
			v.Concerned = true
		case r.Node == quorum.Leader || r.CaughtUpMs > since:
			v.Left++
		}
	}
	return v
}

func (c *canStop) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, c)
	}
	if c.Safe {
		fmt.Fprintf(w, "%s can be stopped\n", list(c.Nodes))
		return nil
	}
	fmt.Fprintf(w, "without %s:\n", list(c.Nodes))
	if v := c.Voters; v.Concerned && v.Left < v.Needed {
		fmt.Fprintf(w, "  %d of %d voters follow the active controller, and it takes %d\n", v.Left, v.All, v.Needed)
	}
	if len(c.Partitions) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  TOPIC\tPARTITION\tWOULD BE\tLEADER\tISR\tREPLICAS\tMIN ISR")
	for _, p := range c.Partitions {
		fmt.Fprintf(table, "  %s\t%d\t%s\t%d\t%s\t%s\t%d\n", p.Topic, p.Partition, p.Why, p.Leader, list(p.ISR), list(p.Replicas), p.MinInSync)
	}
	return table.Flush()
}

// list writes ids as Kafka's tools do.
func list[ID ~int32](ids []ID) string {
	if len(ids) == 0 {
		return "-"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}
