package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/protocol/client"
)

func newQuorumStatusCommand() *cobra.Command {
	var flags clusterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [DIR|FILE]",
		Short: "Say who leads, who votes and how far everybody is",
		Long: `Ask a running cluster, Apache Kafka's too, for its quorum: leader and epoch, voters
and observers, how many records and milliseconds each is behind, and the newest
snapshot, which only controllers tell. Or, given a directory, say what lies there:
epoch, vote, voters, where the log ends, the newest snapshot. Its node may run or
not, and may be Apache Kafka's.`,
		Example: `  klamm quorum status --bootstrap-server localhost:9092
  klamm quorum status --bootstrap-controller localhost:9093 --json
  klamm quorum status /var/lib/klamm`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || flags.given() == (len(args) == 1) {
				return usagef("%s takes either --bootstrap-server, --bootstrap-controller or one directory; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return flags.check(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return quorumOfDirectory(cmd.OutOrStdout(), args[0], asJSON)
			}
			status, err := askQuorum(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			return status.print(cmd.OutOrStdout(), asJSON)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// quorumStatus is what a running cluster says of its quorum.
type quorumStatus struct {
	ClusterID     string          `json:"clusterId"`
	Leader        int32           `json:"leader"`
	Epoch         int32           `json:"epoch"`
	HighWatermark int64           `json:"highWatermark"`
	Snapshot      *snapshotStatus `json:"snapshot"` // null where there is none, or snapshotError says why it is unknown
	SnapshotError string          `json:"snapshotError,omitempty"`
	Voters        []replicaStatus `json:"voters"`
	Observers     []replicaStatus `json:"observers"`
}

type snapshotStatus struct {
	EndOffset int64 `json:"endOffset"`
	Epoch     int32 `json:"epoch"`
	Bytes     int64 `json:"bytes"`
}

// replicaStatus is a voter or observer. Lag is what it lacks of the leader's log;
// −1 stands for unknown, null for no time.
type replicaStatus struct {
	Node         int32    `json:"node"`
	DirectoryID  string   `json:"directoryId"` // zero where a static quorum knows none
	Endpoints    []string `json:"endpoints,omitempty"`
	LogEndOffset int64    `json:"logEndOffset"`
	Lag          int64    `json:"lag"`
	LagMs        int64    `json:"lagMs"`
	LastFetchMs  int64    `json:"lastFetchMs"`
	CaughtUpMs   int64    `json:"lastCaughtUpMs"`
}

// askQuorum asks a cluster.
func askQuorum(ctx context.Context, flags *clusterFlags) (*quorumStatus, error) {
	var status *quorumStatus
	err := flags.with(ctx, func(ctx context.Context, conn *client.Conn) error {
		answer, err := conn.Request(ctx, describeQuorum())
		if err != nil {
			return err
		}
		var leader string
		if status, leader, err = readQuorum(answer.(*kmsg.DescribeQuorumResponse)); err != nil {
			return err
		}
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		if len(flags.controllers) > 0 {
			req.EndpointType = 2
		}
		if answer, err = conn.Request(ctx, req); err != nil {
			return err
		}
		resp := answer.(*kmsg.DescribeClusterResponse)
		if code := protocol.Error(resp.ErrorCode); code != protocol.None {
			return refusal(code, resp.ErrorMessage)
		}
		status.ClusterID = resp.ClusterID
		if len(flags.controllers) > 0 {
			status.Snapshot, err = newestSnapshot(ctx, conn, status.Epoch)
		} else {
			status.Snapshot, err = snapshotAt(ctx, leader, status.Epoch)
		}
		if err != nil {
			status.SnapshotError = err.Error()
		}
		return nil
	})
	return status, err
}

func describeQuorum() *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = protocol.MetadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	return req
}

// readQuorum takes an answer apart. leader is where the leader listens, if the
// answer says so.
func readQuorum(resp *kmsg.DescribeQuorumResponse) (_ *quorumStatus, leader string, err error) {
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return nil, "", refusal(code, resp.ErrorMessage)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, "", errors.New("the answer to DescribeQuorum is not about one partition")
	}
	p := &resp.Topics[0].Partitions[0]
	if code := protocol.Error(p.ErrorCode); code != protocol.None {
		return nil, "", refusal(code, p.ErrorMessage)
	}
	endpoints := map[int32][]string{}
	for _, n := range resp.Nodes {
		for _, l := range n.Listeners {
			address := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
			if n.NodeID == p.LeaderID && leader == "" {
				leader = address
			}
			endpoints[n.NodeID] = append(endpoints[n.NodeID], l.Name+"://"+address)
		}
	}
	status := &quorumStatus{Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark}
	end, caughtUp := p.HighWatermark, int64(-1)
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			end, caughtUp = v.LogEndOffset, v.LastCaughtUpTimestamp
		}
	}
	replicas := func(states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) []replicaStatus {
		all := []replicaStatus{}
		for _, s := range states {
			r := replicaStatus{
				Node: s.ReplicaID, DirectoryID: protocol.UUID(s.ReplicaDirectoryID).String(), Endpoints: endpoints[s.ReplicaID],
				LogEndOffset: s.LogEndOffset, Lag: -1, LagMs: -1, LastFetchMs: s.LastFetchTimestamp, CaughtUpMs: s.LastCaughtUpTimestamp,
			}
			if s.LogEndOffset >= 0 {
				r.Lag = max(0, end-s.LogEndOffset)
			}
			if s.LastCaughtUpTimestamp >= 0 && caughtUp >= 0 {
				r.LagMs = max(0, caughtUp-s.LastCaughtUpTimestamp)
			}
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b replicaStatus) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), strings.Compare(a.DirectoryID, b.DirectoryID))
		})
		return all
	}
	status.Voters, status.Observers = replicas(p.CurrentVoters), replicas(p.Observers)
	return status, leader, nil
}

// snapshotAt asks a controller that the answer of a broker has named.
func snapshotAt(ctx context.Context, address string, epoch int32) (*snapshotStatus, error) {
	if address == "" {
		return nil, errors.New("ask a controller: the broker does not say where they listen")
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("ask a controller: %w", err)
	}
	defer conn.Close()
	return newestSnapshot(ctx, conn, epoch)
}

// newestSnapshot asks the active controller for the snapshot that a follower
// without anything begins with; nil where there is none.
func newestSnapshot(ctx context.Context, conn *client.Conn, epoch int32) (*snapshotStatus, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = protocol.MetadataTopic, protocol.MetadataTopicID
	at := kmsg.NewFetchRequestTopicPartition()
	at.CurrentLeaderEpoch, at.LastFetchedEpoch, at.PartitionMaxBytes = epoch, 0, 1
	topic.Partitions = append(topic.Partitions, at)
	req.Topics = append(req.Topics, topic)
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return nil, fmt.Errorf("ask for the newest snapshot: %w", code)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer to Fetch is not about one partition")
	}
	p := &resp.Topics[0].Partitions[0]
	if code := protocol.Error(p.ErrorCode); code != protocol.None {
		return nil, fmt.Errorf("ask for the newest snapshot: %w", code)
	}
	if p.SnapshotID.EndOffset < 0 {
		return nil, nil
	}
	s := &snapshotStatus{EndOffset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}
	s.Bytes, err = snapshotSize(ctx, conn, epoch, s)
	return s, err
}

func snapshotSize(ctx context.Context, conn *client.Conn, epoch int32, s *snapshotStatus) (int64, error) {
	req := kmsg.NewPtrFetchSnapshotRequest()
	req.MaxBytes = 1
	topic := kmsg.NewFetchSnapshotRequestTopic()
	topic.Topic = protocol.MetadataTopic
	at := kmsg.NewFetchSnapshotRequestTopicPartition()
	at.CurrentLeaderEpoch, at.SnapshotID.EndOffset, at.SnapshotID.Epoch = epoch, s.EndOffset, s.Epoch
	topic.Partitions = append(topic.Partitions, at)
	req.Topics = append(req.Topics, topic)
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return -1, err
	}
	resp := answer.(*kmsg.FetchSnapshotResponse)
	if code := protocol.Error(resp.ErrorCode); code != protocol.None {
		return -1, fmt.Errorf("ask for the size of the snapshot: %w", code)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, errors.New("the answer to FetchSnapshot is not about one partition")
	}
	p := &resp.Topics[0].Partitions[0]
	if code := protocol.Error(p.ErrorCode); code != protocol.None {
		return -1, fmt.Errorf("ask for the size of the snapshot: %w", code)
	}
	return p.Size, nil
}

func (s *quorumStatus) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, s)
	}
	fmt.Fprintf(w, "cluster %s: controller %d leads in epoch %d, high watermark %d\n", s.ClusterID, s.Leader, s.Epoch, s.HighWatermark)
	switch {
	case s.SnapshotError != "":
		fmt.Fprintf(w, "newest snapshot: unknown, %s\n", s.SnapshotError)
	case s.Snapshot == nil:
		fmt.Fprintln(w, "newest snapshot: none yet")
	default:
		fmt.Fprintf(w, "newest snapshot: offsets below %d, epoch %d, %d bytes\n", s.Snapshot.EndOffset, s.Snapshot.Epoch, s.Snapshot.Bytes)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROLE\tNODE\tDIRECTORY\tLOG END\tLAG\tLAG MS\tENDPOINTS")
	rows := func(role string, replicas []replicaStatus) {
		for _, r := range replicas {
			role := role
			if r.Node == s.Leader && role == "voter" {
				role = "leader"
			}
			directory := r.DirectoryID
			if directory == protocol.ZeroUUID.String() {
				directory = "-"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", role, r.Node, directory, known(r.LogEndOffset), known(r.Lag), known(r.LagMs),
				cmp.Or(strings.Join(r.Endpoints, " "), "-"))
		}
	}
	rows("voter", s.Voters)
	rows("observer", s.Observers)
	return table.Flush()
}

func known(n int64) string {
	if n < 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
