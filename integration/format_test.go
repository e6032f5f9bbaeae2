//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// formatted is a node that was formatted with options, and not started.
func formatted(t *testing.T, options ...string) *harness.Node {
	t.Helper()
	n := harness.Configured(t, harness.Klamm)
	n.Format(options...)
	return n
}

// askNode sends a request of the newest version that both sides know.
func askNode(t *testing.T, address string, req kmsg.Request) kmsg.Response {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := client.Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// finalized are a node's finalized features.
func finalized(t *testing.T, address string) map[string]int16 {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	levels := map[string]int16{}
	for _, f := range askNode(t, address, req).(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels
}

// TestReleaseVersions: what a cluster of an old release holds is what its
// readers know. A record of a version that the level does not have, or a record
// that it does not have, would stop them.
func TestReleaseVersions(t *testing.T) {
	for release, c := range map[string]struct {
		level int16
		// Versions of these records, and what is not there at all.
		register, partition, registered string
		absent                          []string
	}{
		"3.3-IV3": {7, "1", "0", "1", []string{"REGISTER_CONTROLLER_RECORD", "BEGIN_TRANSACTION_RECORD", "directories", "cordoned", "logDirs"}},
		"3.6-IV2": {14, "2", "0", "1", []string{"REGISTER_CONTROLLER_RECORD", "directories", "cordoned", "logDirs"}},
		"3.9-IV0": {21, "3", "1", "1", []string{"eligibleLeaderReplicas", "CLEAR_ELR", "cordoned"}},
		"4.2-IV1": {29, "3", "2", "1", []string{"cordoned"}},
		"4.3-IV0": {30, "4", "2", "3", nil},
	} {
		t.Run(release, func(t *testing.T) {
			n := formatted(t, "--release-version", release)
			n.Restart()
			if levels := finalized(t, n.Address); levels["metadata.version"] != c.level {
				t.Errorf("finalized: %v", levels)
			}
			createTopic(t, n.Address, "orders", 3)
			recs := make100k()[:100]
			produceAll(t, n.Address, "orders", recs)
			n.Kill()
			n.Restart()
			same(t, fromFranz(readAll(t, n.Address, "orders", 0, len(recs))), recs)
			n.Stop()
			dump := harness.MustRun(t, "metadata", "dump", n.Data())
			for _, want := range []string{
				fmt.Sprintf(`"name":"metadata.version","featureLevel":%d`, c.level),
				`"type":"REGISTER_BROKER_RECORD","version":` + c.register + ",",
				`"type":"PARTITION_RECORD","version":` + c.partition + ",",
			} {
				if !strings.Contains(dump, want) {
					t.Errorf("no %s", want)
				}
			}
			for _, unwanted := range c.absent {
				if strings.Contains(dump, unwanted) {
					t.Errorf("%s is in the log", unwanted)
				}
			}
			if c.absent == nil && !strings.Contains(dump, `"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":`+c.registered) {
				t.Errorf("no registration change of version %s", c.registered)
			}
		})
	}
}

// TestUpgradeRelease: a cluster of the oldest release becomes one of the newest
// while it runs, and knows then what it could not say before.
func TestUpgradeRelease(t *testing.T) {
	n := formatted(t, "--release-version", "3.3-IV3")
	n.Restart()
	createTopic(t, n.Address, "old", 1)
	output(t, nil, harness.KafkaTools(t), "features", "--bootstrap-server", n.Address, "upgrade", "--feature", "metadata.version=33", "--feature", "eligible.leader.replicas.version=1")
	if levels := finalized(t, n.Address); len(levels) != 2 || levels["metadata.version"] != 33 || levels["eligible.leader.replicas.version"] != 1 {
		t.Errorf("finalized: %v", levels)
	}
	createTopic(t, n.Address, "new", 1)
	n.Stop()
	n.Restart()
	createTopic(t, n.Address, "newer", 1)
	n.Stop()
	dump := harness.MustRun(t, "metadata", "dump", n.Data())
	_, after, _ := strings.Cut(dump, `"featureLevel":33`)
	for _, want := range []string{"REGISTER_CONTROLLER_RECORD", `"type":"PARTITION_RECORD","version":2`, `"type":"REGISTER_BROKER_RECORD","version":4`, "logDirs", "cordonedLogDirs"} {
		if !strings.Contains(after, want) {
			t.Errorf("no %s after the upgrade", want)
		}
	}
}

// B188: a credential that the format was given is there after the first start.
func TestFormatScram(t *testing.T) {
	n := formatted(t, "--add-scram", "SCRAM-SHA-256=[name=admin,password=secret]", "-S", "SCRAM-SHA-512=[name=bob,iterations=8192,password=pencil]")
	for range 2 {
		n.Restart()
		got := map[string]string{}
		for _, r := range askNode(t, n.Address, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
			for _, c := range r.CredentialInfos {
				got[r.User] += fmt.Sprint(c.Mechanism, "/", c.Iterations)
			}
		}
		if len(got) != 2 || got["admin"] != "1/4096" || got["bob"] != "2/8192" {
			t.Errorf("credentials: %v", got)
		}
		n.Stop()
	}
}

// B189: what the format printed is the mode that the node starts in.
func TestStandalone(t *testing.T) {
	n := harness.New(t)
	n.Configure("controller.quorum.voters=", "controller.quorum.bootstrap.servers="+n.Controller)
	refuses(t, 1, []string{"server", n.Config()}, "was not formatted with --standalone")
	if err := os.RemoveAll(n.Data()); err != nil {
		t.Fatal(err)
	}
	if out := n.Format("--standalone"); !strings.Contains(out, "Formatting dynamic metadata voter directory "+n.Data()) {
		t.Fatal(out)
	}
	for range 2 {
		n.Restart()
		if levels := finalized(t, n.Address); levels["kraft.version"] != 1 {
			t.Errorf("finalized: %v", levels)
		}
		n.Kill()
	}
	n.Restart()
	status := string(output(t, nil, harness.KafkaTools(t), "metadata-quorum", "--bootstrap-server", n.Address, "describe", "--status"))
	if !strings.Contains(status, `"endpoints": ["CONTROLLER://`+n.Controller+`"]`) || strings.Contains(status, `"directoryId": "AAAAAAAAAAAAAAAAAAAAAA"`) {
		t.Error(status)
	}
	n.Stop()
	dump := harness.MustRun(t, "metadata", "dump", n.Data("__cluster_metadata-0", "00000000000000000000.log"))
	if strings.Count(dump, "KRaftVoters") != 1 || strings.Count(dump, "LeaderChange") != 3 {
		t.Errorf("%d voters, %d leaders", strings.Count(dump, "KRaftVoters"), strings.Count(dump, "LeaderChange"))
	}
}
