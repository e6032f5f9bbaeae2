package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

func newReplicasCommand() *cobra.Command {
	return group("replicas", "Look at the replicas of partitions", newReplicasVerifyCommand())
}

func newReplicasVerifyCommand() *cobra.Command {
	var flags clusterFlags
	var partitions []int32
	var ranges, asJSON bool
	cmd := &cobra.Command{
		Use:   "verify TOPIC",
		Short: "Compare what the replicas of a topic hold",
		Long: `Read each partition of a topic from every broker that has a replica, leader and
followers alike, and compare the checksums of their bytes, range for range, over all
that was committed when the command began and that all of them still have. Where
checksums differ the first offset is named from which on the replicas differ. Of a
compacted topic, whose brokers do not compact at the same time, ranges that differ
in bytes are compared record by record, where more than one has it.

It reads as consumers do, so brokers may be klamm's, Apache Kafka's, or both. The
exit code is 0 if all replicas answered and are equal.`,
		Example: `  klamm replicas verify orders --bootstrap-server localhost:9092
  klamm replicas verify orders --partitions 0,3 --ranges --bootstrap-server localhost:9092`,
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			if !flags.given() {
				return usagef("%s needs --bootstrap-server", cmd.CommandPath())
			}
			v := &verification{flags: &flags, brokers: map[int32]*broker{}}
			defer v.close()
			if err := v.find(cmd.Context(), args[0]); err != nil {
				return err
			}
			if err := v.has(partitions); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			all, bad := []verified{}, 0
			for _, p := range v.topic.Partitions {
				if len(partitions) > 0 && !slices.Contains(partitions, p.Partition) {
					continue
				}
				result := v.partition(cmd.Context(), &p)
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				if !result.Equal {
					bad++
				}
				if !asJSON {
					result.print(out, args[0], ranges)
				}
				all = append(all, result)
			}
			if asJSON {
				if err := writeJSON(out, all); err != nil {
					return err
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d partitions of %s are not the same everywhere, or not all of their replicas answered", bad, len(all), args[0])
			}
			return nil
		},
	}
	flags.registerBrokers(cmd)
	cmd.Flags().Int32SliceVar(&partitions, "partitions", nil, "only these, with commas between")
	cmd.Flags().BoolVar(&ranges, "ranges", false, "print every range with its checksum")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON array")
	return cmd
}

// verification is one run of the command.
type verification struct {
	flags   *clusterFlags
	topic   kmsg.MetadataResponseTopic
	compact bool
	brokers map[int32]*broker
}

// broker is one that may have replicas.
type broker struct {
	id      int32
	address string // "" for one that the cluster does not know, or not now
	conn    *client.Conn
	gone    error // it did not answer for as long as --timeout says
}

func (v *verification) close() {
	for _, b := range v.brokers {
		if b.conn != nil {
			_ = b.conn.Close()
		}
	}
}

// find looks the topic up, and the brokers.
func (v *verification) find(ctx context.Context, topic string) error {
	return v.flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		req := kmsg.NewPtrMetadataRequest()
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = kmsg.StringPtr(topic)
		req.Topics, req.AllowAutoTopicCreation = append(req.Topics, asked), false
		answer, err := conn.Request(ctx, req)
		if err != nil {
			return err
		}
		resp := answer.(*kmsg.MetadataResponse)
		if len(resp.Topics) != 1 {
			return errors.New("the answer to Metadata is not about one topic")
		}
		v.topic = resp.Topics[0]
		switch code := protocol.Error(v.topic.ErrorCode); code {
		case protocol.None:
		case protocol.ErrUnknownTopicOrPartition:
			return finalError{fmt.Errorf("the cluster has no topic %s", topic)}
		case protocol.ErrInvalidTopicException:
			return finalError{fmt.Errorf("%q is no name of a topic", topic)}
		default:
			return finalError{fmt.Errorf("topic %s: %w", topic, code)}
		}
		slices.SortFunc(v.topic.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		clear(v.brokers)
		for _, b := range resp.Brokers {
			v.brokers[b.NodeID] = &broker{id: b.NodeID, address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))}
		}
		v.compact, err = compacted(ctx, conn, topic)
		return err
	})
}

// has refuses partitions that the topic does not have: one that was misspelt would
// always be equal.
func (v *verification) has(partitions []int32) error {
	for _, id := range partitions {
		if !slices.ContainsFunc(v.topic.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == id }) {
			return fmt.Errorf("topic %s has no partition %d, it has %d of them", *v.topic.Topic, id, len(v.topic.Partitions))
		}
	}
	return nil
}

// compacted tells whether a topic's cleanup.policy says so.
func compacted(ctx context.Context, conn *client.Conn, topic string) (bool, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{"cleanup.policy"}
	req.Resources = append(req.Resources, r)
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return false, err
	}
	for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		if code := protocol.Error(r.ErrorCode); code != protocol.None {
			return false, finalError{refusal(code, r.ErrorMessage)}
		}
		for _, c := range r.Configs {
			if c.Value != nil && strings.Contains(*c.Value, "compact") {
				return true, nil
			}
		}
	}
	return false, nil
}

// ask sends a request to a broker until it answers. Who has not answered within
// the time once is not waited for again.
func (v *verification) ask(ctx context.Context, b *broker, try func(context.Context, *client.Conn) error) error {
	if b.gone != nil {
		return b.gone
	}
	ctx, cancel := context.WithTimeout(ctx, v.flags.timeout)
	defer cancel()
	for {
		err := v.once(ctx, b, try)
		var final finalError
		if err == nil || errors.As(err, &final) {
			return err
		}
		select {
		case <-ctx.Done():
			b.gone = err
			return err
		case <-time.After(pause):
		}
	}
}

func (v *verification) once(ctx context.Context, b *broker, try func(context.Context, *client.Conn) error) error {
	if b.address == "" {
		return errors.New("it is not there")
	}
	if b.conn == nil {
		conn, err := dial(ctx, b.address)
		if err != nil {
			return err
		}
		b.conn = conn
	}
	err := try(ctx, b.conn)
	if b.conn.Err() != nil {
		_ = b.conn.Close()
		b.conn = nil
	}
	if errors.Is(err, protocol.ErrUnsupportedVersion) {
		return finalError{err}
	}
	return err
}

// verified is what came out for one partition.
type verified struct {
	Partition int32 `json:"partition"`
	// From and To bound what was compared, To excluded; Replicas are the brokers
	// that it was compared of.
	From     int64          `json:"from"`
	To       int64          `json:"to"`
	Bytes    int64          `json:"bytes"`
	Checksum string         `json:"checksum,omitempty"` // of all of it, where it is equal
	Replicas []int32        `json:"replicas"`
	Equal    bool           `json:"equal"` // and all have answered
	Ranges   []comparedPart `json:"ranges"`
	Problems []string       `json:"problems"`
}

// comparedPart is a range of offsets as each replica has it.
type comparedPart struct {
	From   int64    `json:"from"`
	To     int64    `json:"to"`
	Equal  bool     `json:"equal"`
	First  *int64   `json:"firstDifference,omitempty"`
	Copies []copied `json:"copies"`
}

// copied is what one broker has of a range.
type copied struct {
	Broker   int32  `json:"broker"`
	Batches  int    `json:"batches"`
	Bytes    int64  `json:"bytes"`
	Checksum string `json:"checksum"`
}

func (v *verified) print(w io.Writer, topic string, ranges bool) {
	name := fmt.Sprintf("%s-%d", topic, v.Partition)
	for _, p := range v.Problems {
		fmt.Fprintf(w, "%s: %s\n", name, p)
	}
	for _, r := range v.Ranges {
		if !ranges && r.Equal {
			continue
		}
		what := "equal"
		if !r.Equal {
			what = fmt.Sprintf("DIFFERENT from offset %d on", *r.First)
		}
		fmt.Fprintf(w, "%s: offsets %d to %d %s:", name, r.From, r.To-1, what)
		for i, c := range r.Copies {
			if i > 0 {
				fmt.Fprint(w, ";")
			}
			fmt.Fprintf(w, " broker %d %s, %d bytes in %d batches", c.Broker, c.Checksum, c.Bytes, c.Batches)
		}
		fmt.Fprintln(w)
	}
	of := "of brokers " + list(v.Replicas)
	different := slices.ContainsFunc(v.Ranges, func(r comparedPart) bool { return !r.Equal })
	switch {
	case len(v.Replicas) < 2:
		fmt.Fprintf(w, "%s: there is nothing to compare with\n", name)
	case different:
		fmt.Fprintf(w, "%s: offsets %d to %d %s are NOT equal\n", name, v.From, v.To-1, of)
	case v.From == v.To:
		fmt.Fprintf(w, "%s: all is equal %s: nothing at offset %d\n", name, of, v.From)
	default:
		fmt.Fprintf(w, "%s: offsets %d to %d %s are equal: %s, %d bytes\n", name, v.From, v.To-1, of, v.Checksum, v.Bytes)
	}
}
