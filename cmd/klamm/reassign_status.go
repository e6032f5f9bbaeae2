package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
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

func newReassignCommand() *cobra.Command {
	return group("reassign", "Look at partitions that move to other brokers", newReassignStatusCommand())
}

func newReassignStatusCommand() *cobra.Command {
	var flags clusterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say which partitions move, and how much of them has been copied",
		Long: `Ask a running cluster, Apache Kafka's too, which partitions are on their way to other
brokers, and for each broker that gets a replica how many of the leader's bytes it has,
or that it is away: such a move waits for it, and can be cancelled. Then the rates that
moving replicas are held to, also where nothing moves and they were forgotten.

Bytes are those of the logs on disk: while others produce both numbers grow.`,
		Example: `  klamm reassign status --bootstrap-server localhost:9092
  klamm reassign status --bootstrap-server localhost:9092 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			if !flags.given() {
				return usagef("%s needs --bootstrap-server", cmd.CommandPath())
			}
			status, err := askReassignments(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			return status.print(cmd.OutOrStdout(), asJSON)
		},
	}
	flags.registerBrokers(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// reassignStatus is which partitions move.
type reassignStatus struct {
	Partitions []moving   `json:"partitions"`
	Throttles  []throttle `json:"throttles"`
	// Problems are the brokers that have not answered, and why.
	Problems []string `json:"problems"`
}

// moving is a partition that moves, from the replicas that it had to those that it
// is to have.
type moving struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Leader    int32      `json:"leader"`
	From      []int32    `json:"from"`
	To        []int32    `json:"to"`
	Copies    []newCopy  `json:"copies"`
	isr       []int32    // as the metadata has it
	key       topicIndex // of its sizes
}

// newCopy is the replica that a broker gets. Bytes is what it has and Of what the
// leader has, −1 where it is unknown.
type newCopy struct {
	Broker int32 `json:"broker"`
	Bytes  int64 `json:"bytes"`
	Of     int64 `json:"of"`
	InSync bool  `json:"inSync"`
	Away   bool  `json:"away"`
}

// throttle is what a broker holds moving replicas to, −1 where it does not.
type throttle struct {
	Broker   int32 `json:"broker"`
	Leader   int64 `json:"leader"`
	Follower int64 `json:"follower"`
}

type topicIndex struct {
	topic     string
	partition int32
}

// askReassignments asks a cluster.
func askReassignments(ctx context.Context, flags *clusterFlags) (*reassignStatus, error) {
	var status *reassignStatus
	err := flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		req := kmsg.NewPtrListPartitionReassignmentsRequest() // of all topics
		req.TimeoutMillis = timeoutMs(flags.timeout)
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		list := answer.(*kmsg.ListPartitionReassignmentsResponse)
		if code := protocol.Error(list.ErrorCode); code != protocol.None {
			return refusal(code, list.ErrorMessage)
		}
		status = &reassignStatus{Partitions: partitionsMoving(list), Throttles: []throttle{}, Problems: []string{}}
		brokers, err := status.findLeaders(ctx, conn)
		if err != nil {
			return err
		}
		status.askBrokers(ctx, brokers)
		return nil
	})
	return status, err
}

func partitionsMoving(list *kmsg.ListPartitionReassignmentsResponse) []moving {
	out := []moving{}
	for _, t := range list.Topics {
		for _, p := range t.Partitions {
			m := moving{
				Topic: t.Topic, Partition: p.Partition, Leader: -1, Copies: []newCopy{}, key: topicIndex{t.Topic, p.Partition},
				From: idsWithout(p.Replicas, p.AddingReplicas), To: idsWithout(p.Replicas, p.RemovingReplicas),
			}
			for _, id := range idsWithout(p.AddingReplicas, p.RemovingReplicas) {
				m.Copies = append(m.Copies, newCopy{Broker: id, Bytes: -1, Of: -1})
			}
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b moving) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

func idsWithout(ids, out []int32) []int32 {
	rest := []int32{}
	for _, id := range ids {
		if !slices.Contains(out, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

// findLeaders looks up who leads and who is in sync, and where the brokers are.
func (s *reassignStatus) findLeaders(ctx context.Context, conn *client.Conn) (map[int32]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics, req.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{}, false
	for i, m := range s.Partitions {
		if i == 0 || s.Partitions[i-1].Topic != m.Topic {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(m.Topic)
			req.Topics = append(req.Topics, t)
		}
	}
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.MetadataResponse)
	brokers := make(map[int32]string)
	for _, b := range resp.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for i := range s.Partitions {
				if m := &s.Partitions[i]; t.Topic != nil && m.key == (topicIndex{*t.Topic, p.Partition}) {
					m.Leader, m.isr = p.Leader, p.ISR
				}
			}
		}
	}
	return brokers, nil
}

// brokerPatience bounds the answer of one broker, so that one that hangs does not
// use up the time for all.
const brokerPatience = 5 * time.Second

// askBrokers asks the brokers for the sizes of their replicas and for their rates.
func (s *reassignStatus) askBrokers(ctx context.Context, brokers map[int32]string) {
	sizes := make(map[int32]map[topicIndex]int64)
	for id, address := range brokers {
		one := func() error {
			ctx, cancel := context.WithTimeout(ctx, brokerPatience)
			defer cancel()
			conn, err := dial(ctx, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			if sizes[id], err = s.replicaSizes(ctx, conn, id); err != nil {
				return err
			}
			t, err := throttleOf(ctx, conn, id)
			if err == nil && (t.Leader >= 0 || t.Follower >= 0) {
				s.Throttles = append(s.Throttles, t)
			}
			return err
		}
		if err := one(); err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("broker %d does not answer: %v", id, err))
		}
	}
	slices.SortFunc(s.Throttles, func(a, b throttle) int { return cmp.Compare(a.Broker, b.Broker) })
	slices.Sort(s.Problems)
	for i := range s.Partitions {
		m := &s.Partitions[i]
		for j := range m.Copies {
			c := &m.Copies[j]
			_, there := brokers[c.Broker]
			c.Away, c.InSync = !there, slices.Contains(m.isr, c.Broker)
			if size, ok := sizes[m.Leader][m.key]; ok {
				c.Of = size
			}
			if held := sizes[c.Broker]; held != nil {
				c.Bytes = held[m.key] // a replica that is not begun has none
			}
		}
	}
}

// replicaSizes are those of the replicas on a broker that matter.
func (s *reassignStatus) replicaSizes(ctx context.Context, conn *client.Conn, id int32) (map[topicIndex]int64, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // nil would be all
	for _, m := range s.Partitions {
		if m.Leader != id && !slices.ContainsFunc(m.Copies, func(c newCopy) bool { return c.Broker == id }) {
			continue
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != m.Topic {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = m.Topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, m.Partition)
	}
	sizes := make(map[topicIndex]int64)
	if len(req.Topics) == 0 {
		return sizes, nil
	}
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, dir := range answer.(*kmsg.DescribeLogDirsResponse).Dirs {
		for _, t := range dir.Topics {
			for _, p := range t.Partitions {
				if !p.IsFuture {
					sizes[topicIndex{t.Topic, p.Partition}] = p.Size
				}
			}
		}
	}
	return sizes, nil
}

// The rates of a broker.
const (
	leaderRate   = "leader.replication.throttled.rate"
	followerRate = "follower.replication.throttled.rate"
)

func throttleOf(ctx context.Context, conn *client.Conn, id int32) (throttle, error) {
	out := throttle{Broker: id, Leader: -1, Follower: -1}
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), []string{leaderRate, followerRate}
	req.Resources = append(req.Resources, r)
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return out, err
	}
	resp := answer.(*kmsg.DescribeConfigsResponse)
	if len(resp.Resources) != 1 {
		return out, errors.New("the answer to DescribeConfigs is not about one broker")
	}
	if code := protocol.Error(resp.Resources[0].ErrorCode); code != protocol.None {
		return out, refusal(code, resp.Resources[0].ErrorMessage)
	}
	for _, c := range resp.Resources[0].Configs {
		if c.Value == nil {
			continue
		}
		rate, err := strconv.ParseInt(*c.Value, 10, 64)
		if err != nil || rate == math.MaxInt64 {
			continue
		}
		switch c.Name {
		case leaderRate:
			out.Leader = rate
		case followerRate:
			out.Follower = rate
		}
	}
	return out, nil
}

// state is how far a copy is, for people.
func (c *newCopy) state() string {
	switch {
	case c.InSync:
		return "in sync"
	case c.Away:
		return "away"
	case c.Of <= 0 || c.Bytes < 0:
		return "?"
	}
	// Whoever is not in sync is not done.
	return fmt.Sprintf("%d %%", min(99, 100*c.Bytes/c.Of))
}

func (s *reassignStatus) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, s)
	}
	var bytes, of int64
	for _, m := range s.Partitions {
		for _, c := range m.Copies {
			if c.Of >= 0 { // of one that is away none is known to be there
				bytes, of = bytes+min(max(c.Bytes, 0), c.Of), of+c.Of
			}
		}
	}
	switch len(s.Partitions) {
	case 0:
		fmt.Fprintln(w, "no partitions move")
	case 1:
		fmt.Fprintf(w, "1 partition moves, %d of %d bytes have been copied\n\n", bytes, of)
	default:
		fmt.Fprintf(w, "%d partitions move, %d of %d bytes have been copied\n\n", len(s.Partitions), bytes, of)
	}
	if len(s.Partitions) > 0 {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "TOPIC\tPARTITION\tFROM\tTO\tLEADER\tBROKER\tBYTES\tOF\tSTATE")
		for _, m := range s.Partitions {
			leader := "none"
			if m.Leader >= 0 {
				leader = strconv.Itoa(int(m.Leader))
			}
			where := fmt.Sprintf("%s\t%d\t%s\t%s\t%s", m.Topic, m.Partition, list(m.From), list(m.To), leader)
			if len(m.Copies) == 0 {
				fmt.Fprintf(table, "%s\t-\t-\t-\t-\n", where)
			}
			for _, c := range m.Copies {
				fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", where, c.Broker, known(c.Bytes), known(c.Of), c.state())
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(s.Throttles)+len(s.Problems) > 0 {
		fmt.Fprintln(w)
	}
	for _, t := range s.Throttles {
		if t.Leader >= 0 {
			fmt.Fprintf(w, "broker %d sends throttled replicas %d bytes a second\n", t.Broker, t.Leader)
		}
		if t.Follower >= 0 {
			fmt.Fprintf(w, "broker %d fetches %d bytes a second for throttled replicas\n", t.Broker, t.Follower)
		}
	}
	for _, p := range s.Problems {
		fmt.Fprintln(w, p)
	}
	return nil
}
