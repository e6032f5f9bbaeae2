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
)

// formatted is a node that was formatted with options, and not started.
func formatted(t *testing.T, options ...string) *node {
	t.Helper()
	n := newNode(t)
	if err := os.RemoveAll(n.data()); err != nil {
		t.Fatal(err)
	}
	if out, err := n.run(append([]string{"storage", "format", "-t", clusterID, "-c", n.config()}, options...)...); err != nil {
		t.Fatalf("format %s: %v\n%s", options, err, out)
	}
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
			n.start()
			if levels := finalized(t, n.address); levels["metadata.version"] != c.level {
				t.Errorf("finalized: %v", levels)
			}
			createTopic(t, n.address, "orders", 3)
			recs := make100k()[:100]
			produceAll(t, n.address, "orders", recs)
			n.kill()
			n.start()
			same(t, fromFranz(readAll(t, n.address, "orders", 0, len(recs))), recs)
			n.stop()
			dump, err := n.run("metadata", "dump", n.data())
			if err != nil {
				t.Fatal(err)
			}
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
	n.start()
	createTopic(t, n.address, "old", 1)
	output(t, nil, kafkaTools(t), "features", "--bootstrap-server", n.address, "upgrade", "--feature", "metadata.version=33", "--feature", "eligible.leader.replicas.version=1")
	if levels := finalized(t, n.address); len(levels) != 2 || levels["metadata.version"] != 33 || levels["eligible.leader.replicas.version"] != 1 {
		t.Errorf("finalized: %v", levels)
	}
	createTopic(t, n.address, "new", 1)
	n.stop()
	n.start()
	createTopic(t, n.address, "newer", 1)
	n.stop()
	dump, err := n.run("metadata", "dump", n.data())
	if err != nil {
		t.Fatal(err)
	}
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
		n.start()
		got := map[string]string{}
		for _, r := range askNode(t, n.address, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results {
			for _, c := range r.CredentialInfos {
				got[r.User] += fmt.Sprint(c.Mechanism, "/", c.Iterations)
			}
		}
		if len(got) != 2 || got["admin"] != "1/4096" || got["bob"] != "2/8192" {
			t.Errorf("credentials: %v", got)
		}
		n.stop()
	}
}

// B189: what the format printed is the mode that the node starts in.
func TestStandalone(t *testing.T) {
	n := newNode(t)
	controller := freePort(t)
	n.configure(controller, "controller.quorum.voters=", "controller.quorum.bootstrap.servers=localhost:"+controller)
	refuses(t, 1, []string{"server", n.config()}, "was not formatted with --standalone")
	if err := os.RemoveAll(n.data()); err != nil {
		t.Fatal(err)
	}
	out, err := n.run("storage", "format", "-t", clusterID, "-c", n.config(), "--standalone")
	if err != nil || !strings.Contains(out, "Formatting dynamic metadata voter directory "+n.data()) {
		t.Fatalf("%v %s", err, out)
	}
	for range 2 {
		n.start()
		if levels := finalized(t, n.address); levels["kraft.version"] != 1 {
			t.Errorf("finalized: %v", levels)
		}
		n.kill()
	}
	n.start()
	status := string(output(t, nil, kafkaTools(t), "metadata-quorum", "--bootstrap-server", n.address, "describe", "--status"))
	if !strings.Contains(status, `"endpoints": ["CONTROLLER://localhost:`+controller+`"]`) || strings.Contains(status, `"directoryId": "AAAAAAAAAAAAAAAAAAAAAA"`) {
		t.Error(status)
	}
	n.stop()
	dump, err := n.run("metadata", "dump", n.data("__cluster_metadata-0", "00000000000000000000.log"))
	if err != nil || strings.Count(dump, "KRaftVoters") != 1 || strings.Count(dump, "LeaderChange") != 3 {
		t.Errorf("%v: %d voters, %d leaders", err, strings.Count(dump, "KRaftVoters"), strings.Count(dump, "LeaderChange"))
	}
}
