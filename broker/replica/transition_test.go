package replica

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// TestTransition runs testdata/transition: what a broker does about each change
// of a partition.
func TestTransition(t *testing.T) {
	datadriven.RunTest(t, "testdata/transition", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			var now known
			var after *metadata.Partition
			left, right, ok := strings.Cut(line, "->")
			if !ok {
				d.Fatalf(t, "no arrow in %q", line)
			}
			if f := strings.Fields(left); f[0] != "none" {
				now = known{
					hosted:         true,
					leaderEpoch:    protocol.LeaderEpoch(number(t, f[1])),
					partitionEpoch: protocol.PartitionEpoch(number(t, f[2])),
				}
			}
			if f := strings.Fields(right); f[0] != "gone" {
				after = &metadata.Partition{
					Leader: protocol.NodeID(number(t, f[0])), LeaderEpoch: protocol.LeaderEpoch(number(t, f[1])),
					PartitionEpoch: protocol.PartitionEpoch(number(t, f[2])), Replicas: nodeIDs(t, f[3]),
				}
			}
			fmt.Fprintf(&out, "%s: %s\n", strings.TrimSpace(line), transition(1, now, after))
		}
		return out.String()
	})
}

func nodeIDs(t *testing.T, s string) []protocol.NodeID {
	var ids []protocol.NodeID
	if s == "-" {
		return nil
	}
	for _, f := range strings.Split(s, ",") {
		ids = append(ids, protocol.NodeID(number(t, f)))
	}
	return ids
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("number %q: %v", s, err)
	}
	return n
}
