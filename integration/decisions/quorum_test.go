//go:build integration

package decisions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/protocol"
)

// TestQuorum: what three voters say of themselves, the one that leads and one that
// does not, and what they serve.
func TestQuorum(t *testing.T) {
	w := newWorld(t, harness.StartCluster(t, 3, settings...))
	w.until("a cluster", all(fenced(1, false), fenced(2, false), fenced(3, false), func(img *metadata.Image) bool {
		return len(slices.Collect(img.Controllers())) == 3
	}))
	leader := w.leader()
	other := leader%3 + 1
	w.names[fmt.Sprintf("LeaderID=%d", leader)] = "LeaderID=<leader>"
	w.names[fmt.Sprintf("be node %d.", leader)] = "be node <leader>."
	w.part("the quorum", func() {
		w.ask(w.broker(1), "described", harness.QuorumRequest(protocol.MetadataTopic, 0))
		w.ask(w.controller(leader), "described by the leader", harness.QuorumRequest(protocol.MetadataTopic, 0))
		w.ask(w.controller(leader), "another partition", harness.QuorumRequest(protocol.MetadataTopic, 1))
		w.ask(w.controller(leader), "another topic", harness.QuorumRequest("t", 0))
	})
	w.part("the quorum, described by another", func() {
		w.ask(w.controller(other), "described", harness.QuorumRequest(protocol.MetadataTopic, 0))
	})
	w.part("the cluster", func() {
		for _, endpoints := range []int8{1, 2, 7} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = endpoints
			w.ask(w.broker(1), fmt.Sprintf("endpoints of type %d", endpoints), req)
			w.ask(w.controller(leader), fmt.Sprintf("endpoints of type %d", endpoints), req)
		}
	})
	w.part("requests to a controller that does not lead", func() {
		to := w.controller(other)
		w.ask(to, "create", create(topic("n", "1")))
		w.ask(to, "delete", remove("n"))
		w.ask(to, "grow", grow("n 2"))
		w.ask(to, "move", move("n 0 1"))
		w.ask(to, "moves", moves())
		w.ask(to, "elect", elect(preferred, "n 0"))
		w.ask(to, "configs", alter(change(ofTopic, "n", "retention.ms=1")))
		w.ask(to, "configs", replace(ofTopic, "n", "retention.ms=1"))
		w.ask(to, "features", features(up, "transaction.version=1"))
		w.ask(to, "quotas", quotas(harness.Quota("user=ann", "producer_byte_rate=1")))
		w.ask(to, "credentials", scram("ann 1 4096"))
		w.ask(to, "access", permit(acl(kmsg.ACLResourceTypeTopic, "t", "User:ann", kmsg.ACLOperationRead)))
		w.ask(to, "no access", forbid("User:ann"))
		w.ask(to, "unregister a broker", unregister(9))
		ids := kmsg.NewPtrAllocateProducerIDsRequest()
		ids.BrokerID, ids.BrokerEpoch = 1, w.epoch(1)
		w.ask(to, "producer ids", ids)
		beat := kmsg.NewPtrBrokerHeartbeatRequest()
		beat.BrokerID, beat.BrokerEpoch = 1, w.epoch(1)
		w.ask(to, "heartbeat", beat)
		w.ask(to, "registration", w.registration(9))
		dirs := kmsg.NewPtrAssignReplicasToDirsRequest()
		dirs.BrokerID, dirs.BrokerEpoch = 1, w.epoch(1)
		w.ask(to, "directories", dirs)
		isr := kmsg.NewPtrAlterPartitionRequest()
		isr.BrokerID, isr.BrokerEpoch = 1, w.epoch(1)
		w.ask(to, "in-sync sets", isr)
	})
	w.part("what a controller serves", func() { w.served(w.controller(leader)) })
	compare(t, "quorum", w.out.String())
}

// leader waits for a leader that the voters agree on.
func (w *world) leader() int32 {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		resp, err := w.send(w.broker(1), newest, harness.QuorumRequest(protocol.MetadataTopic, 0))
		if err != nil {
			continue
		}
		for _, t := range resp.(*kmsg.DescribeQuorumResponse).Topics {
			if p := t.Partitions[0]; p.ErrorCode == 0 && len(p.CurrentVoters) == 3 && !slices.ContainsFunc(p.CurrentVoters, func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
				return v.LogEndOffset < 0
			}) {
				return p.LeaderID
			}
		}
	}
	w.t.Fatal("no leader whose voters all follow")
	return 0
}

// served writes down the APIs and features that a listener advertises.
func (w *world) served(by string) {
	w.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "decisions", "1"
	resp, err := w.send(by, 4, req)
	if err != nil {
		w.t.Fatal(err)
	}
	versions := resp.(*kmsg.ApiVersionsResponse)
	slices.SortFunc(versions.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	var lines []string
	for _, api := range versions.ApiKeys {
		lines = append(lines, fmt.Sprintf("%s %d-%d\n", kmsg.NameForKey(api.ApiKey), api.MinVersion, api.MaxVersion))
	}
	for _, f := range versions.SupportedFeatures {
		lines = append(lines, fmt.Sprintf("supports %s %d-%d\n", f.Name, f.MinVersion, f.MaxVersion))
	}
	for _, f := range versions.FinalizedFeatures {
		lines = append(lines, fmt.Sprintf("finalized %s %d-%d\n", f.Name, f.MinVersionLevel, f.MaxVersionLevel))
	}
	slices.SortFunc(lines[len(versions.ApiKeys):], strings.Compare)
	for _, line := range lines {
		w.out.WriteString(line)
	}
}
