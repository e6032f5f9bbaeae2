//go:build integration

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
	"github.com/klamm/klamm/protocol"
)

// inspected is three nodes that write many snapshots, and their operator.
type inspected struct {
	*harness.Cluster
	t      *testing.T
	client *kgo.Client
}

func (c *inspected) klamm(args ...string) string {
	c.t.Helper()
	return harness.MustRun(c.t, append([]string{"metadata"}, args...)...)
}

func (c *inspected) ask(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.client.Request(ctx, req)
	if err != nil {
		c.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

// await waits until every partition has a leader that is not gone and so many
// replicas in sync.
func (c *inspected) await(topic string, inSync int, gone int32) (leader int32) {
	c.t.Helper()
	req := harness.MetadataRequest(topic)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ready := true
		for _, t := range c.ask(req).(*kmsg.MetadataResponse).Topics {
			ready = ready && len(t.Partitions) == 3
			for _, p := range t.Partitions {
				ready = ready && p.Leader >= 0 && p.Leader != gone && len(p.ISR) == inSync
				if p.Partition == 0 {
					leader = p.Leader
				}
			}
		}
		switch {
		case ready:
			return leader
		case time.Now().After(deadline):
			c.t.Fatalf("%s has not got %d replicas in sync", topic, inSync)
		}
	}
}

var (
	digestLine   = regexp.MustCompile(`^offset (\d+) epoch \d+ digest ([0-9a-f]{32})\n$`)
	snapshotLine = regexp.MustCompile(`"offset":(\d+),"digest":"([0-9a-f]{32})"`)
)

// digest is that of a node's directory at an offset, or at its end.
func (c *inspected) digest(dir string, at ...string) (offset int64, digest string) {
	c.t.Helper()
	args := []string{"digest", dir}
	if len(at) > 0 {
		args = append(args, "--at", at[0])
	}
	m := digestLine.FindStringSubmatch(c.klamm(args...))
	if m == nil {
		c.t.Fatalf("no digest of %s", dir)
	}
	offset, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return offset, m[2]
}

// sameDigests compares the nodes at the last offset that all of them have, and at
// those of all snapshots that any has written (invariant 8).
func (c *inspected) sameDigests() {
	c.t.Helper()
	var ends []int64
	for _, n := range c.Nodes {
		end, _ := c.digest(n.Data())
		ends = append(ends, end)
	}
	last := strconv.FormatInt(slices.Min(ends), 10)
	_, want := c.digest(c.Nodes[0].Data(), last)
	for _, n := range c.Nodes[1:] {
		if _, got := c.digest(n.Data(), last); got != want {
			c.t.Errorf("at offset %s %s has digest %s, %s %s", last, n.Data(), got, c.Nodes[0].Data(), want)
		}
	}
	snapshots := 0
	for i, writer := range c.Nodes {
		for _, m := range snapshotLine.FindAllStringSubmatch(writer.Log(), -1) {
			if offset, err := strconv.ParseInt(m[1], 10, 64); err != nil || offset > slices.Min(ends) {
				continue
			}
			snapshots++
			reader := c.Nodes[(i+1)%len(c.Nodes)]
			if _, got := c.digest(reader.Data(), m[1]); got != m[2] {
				c.t.Errorf("at offset %s %s has digest %s, the snapshot of %s says %s", m[1], reader.Data(), got, writer.Data(), m[2])
			}
		}
	}
	if snapshots == 0 {
		c.t.Error("nobody has written a snapshot")
	}
}

// died takes both ways in which a death is found for one: evidence counts only
// against a broker that the controller has reached before, and these may die
// sooner.
var died = strings.NewReplacer("session expired", "process gone")

// TestCausesAndDigests: after deaths and elections the metadata says on every node
// what happened and why, and says the same.
func TestCausesAndDigests(t *testing.T) {
	c := &inspected{t: t, Cluster: harness.StartCluster(t, 3,
		"metadata.log.max.record.bytes.between.snapshots=3000", "replica.lag.time.max.ms=2000", "broker.session.timeout.ms=3000")}
	c.client = client(t, c.Nodes[0].Address, kgo.SeedBrokers(c.Bootstrap()...))

	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 3, 3
	create.Topics, create.TimeoutMillis = append(create.Topics, topic), 30_000
	c.ask(create)
	victim := c.await("orders", 3, -1)
	c.Node(victim).Kill()
	c.await("orders", 2, victim)
	explained := died.Replace(c.klamm("explain", c.Node(victim%3+1).Data(), "orders/0"))
	for _, want := range []string{
		"orders-0 is online, under-replicated",
		fmt.Sprintf("): broker %d: process gone", victim),
		fmt.Sprintf("it must return: broker %d is fenced, since offset", victim),
	} {
		if !strings.Contains(explained, want) {
			t.Errorf("this does not say %q:\n%s", want, explained)
		}
	}
	c.Node(victim).Restart()
	c.await("orders", 3, -1)
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 30_000
	c.ask(elect)
	for deadline := time.Now().Add(patience); c.await("orders", 3, -1) != victim; {
		if time.Now().After(deadline) {
			t.Fatal("the preferred leader was not elected")
		}
	}
	c.sameDigests()

	for _, n := range c.Nodes {
		n.Kill()
	}
	c.Restart()
	c.await("orders", 3, -1)
	c.sameDigests()
	for _, n := range c.Nodes {
		n.Stop()
	}
	c.sameDigests()

	for _, n := range c.Nodes {
		segment := filepath.Join(n.Data(), protocol.MetadataTopic+"-0", "00000000000000000000.log")
		for _, path := range []string{n.Data(), segment} {
			for _, about := range []struct {
				object []string
				texts  []string
			}{
				{[]string{"partition", "orders/0"}, []string{
					"PARTITION_RECORD  CreateTopics by User:ANONYMOUS",
					fmt.Sprintf("PARTITION_CHANGE_RECORD  broker %d: process gone\n  leader: %d -> ", victim, victim),
					fmt.Sprintf("%d caught up", victim),
					"preferred election by User:ANONYMOUS\n  leader: ",
				}},
				{[]string{"broker", strconv.Itoa(int(victim))}, []string{
					fmt.Sprintf("REGISTER_BROKER_RECORD  broker %d: registered\n", victim),
					fmt.Sprintf("broker %d: process gone\n  fenced: false -> true", victim),
					fmt.Sprintf("broker %d: registered after an unclean stop", victim),
					"the whole of the log",
				}},
			} {
				out := died.Replace(c.klamm(append([]string{"history", path}, about.object...)...))
				for _, want := range about.texts {
					if !strings.Contains(out, want) {
						t.Errorf("the history of %v in %s does not say %q:\n%s", about.object, path, want, out)
					}
				}
			}
		}
	}
}
