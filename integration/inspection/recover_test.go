//go:build integration

package inspection

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm/klamm/integration/harness"
)

// activeController is the node that leads, by klamm quorum status.
func (w *world) activeController() *harness.Node {
	w.T.Helper()
	out := w.klamm("quorum", "status", "--bootstrap-server", strings.Join(w.Bootstrap(), ","))
	for i, n := range w.Nodes {
		if strings.Contains(out, ": controller "+string(rune('1'+i))+" leads") {
			return n
		}
	}
	w.T.Fatalf("nobody leads:\n%s", out)
	return nil
}

// TestRecover: two of three combined nodes are lost for good. The third becomes the
// only voter, with all that it had, what only its Raft's store held included; two
// new disks join it, and have the same metadata (B074 of package faults).
func TestRecover(t *testing.T) {
	w := newWorld(t, harness.StartCluster(t, 3, "auto.create.topics.enable=false", "offsets.topic.replication.factor=3",
		"metadata.log.max.record.bytes.between.snapshots=4000", "broker.session.timeout.ms=3000"))
	w.create("orders", 3, 3)
	w.create("users", 1, 3)
	w.awaitInSync("orders", 3)
	w.produce("orders", 100)
	before := w.topic("orders").TopicID

	survivor := w.activeController()
	others := slices.DeleteFunc(slices.Clone(w.Nodes), func(n *harness.Node) bool { return n == survivor })
	if _, text, ok := harness.Run(t, "metadata", "recover", survivor.Data()); ok {
		t.Error("a running node's directory is recovered")
	} else {
		says(t, text, "a process holds "+survivor.Data(), "stop its node first")
	}
	// A topic that no majority ever had: it is in the leader's store only.
	for _, n := range others {
		n.Signal(syscall.SIGSTOP)
	}
	w.createInVain(survivor, "half")
	w.killAll(w.Nodes...)

	if _, text, ok := harness.Run(t, "metadata", "recover", w.Nodes[0].Data(), w.Nodes[1].Data(), w.Nodes[2].Data()); ok {
		t.Error("a quorum is recovered that has a majority")
	} else {
		says(t, text, "a majority: nothing is lost")
	}
	had := files(t, survivor.Data())
	plan := w.klamm("metadata", "recover", survivor.Data())
	says(t, plan, "The longest is "+survivor.Data(), "these are missing: ", "may never have been committed", "Nothing was changed.")
	if now := files(t, survivor.Data()); !maps.Equal(had, now) {
		t.Error("without --yes something has changed")
	}
	done := w.klamm("metadata", "recover", "--yes", survivor.Data())
	says(t, done, "is the only voter of a new quorum now", "controller.quorum.voters=")
	keptAside(t, had, survivor.Data())

	voters := quorumVoters(t, done)
	if _, port, _ := strings.Cut(survivor.Controller, ":"); !strings.HasSuffix(voters, "@localhost:"+port) {
		t.Errorf("the survivor listens at %s, and is said to at %s", survivor.Controller, voters)
	}
	survivor.Configure("controller.quorum.voters=" + voters)
	survivor.Restart()
	says(t, w.klamm("metadata", "show", survivor.Data(), "topics/half/partitions/0"), "replicas")
	says(t, w.klamm("metadata", "show", survivor.Data(), "configs/topics/orders"), "retention.ms: 7200000")
	if now := w.topic("orders").TopicID; now != before {
		t.Errorf("orders has the id %v, and had %v", now, before)
	}
	w.create("new", 1, 1)

	// The survivor died too, so the last in sync were on the lost disks, as far as
	// metadata tell: what there is is taken.
	w.Await("the survivor leads every partition", func() bool {
		w.elect(1)
		return !slices.ContainsFunc(w.topic("orders").Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader != w.id(survivor) })
	})
	w.consume("orders", 100)

	// The others come back with new disks: one as a broker, and, where the quorum is
	// made a dynamic one, one as a voter too.
	broker, both := others[0], others[1]
	broker.Configure("process.roles=broker", "listeners=PLAINTEXT://"+broker.Address, "controller.quorum.voters="+voters)
	broker.Controller = ""
	broker.Wipe()
	broker.Restart()
	w.upgradeKRaft()
	_, address, _ := strings.Cut(voters, "@")
	both.Configure("controller.quorum.voters=", "controller.quorum.bootstrap.servers="+address)
	both.WipeDynamic()
	both.Restart()
	w.klamm("quorum", "add", strconv.Itoa(int(w.id(both))), "--bootstrap-server", survivor.Address)
	status := w.klamm("quorum", "status", "--bootstrap-server", survivor.Address)
	says(t, status, fmt.Sprintf("leader    %d ", w.id(survivor)), fmt.Sprintf("voter     %d ", w.id(both)), fmt.Sprintf("observer  %d ", w.id(broker)))
	w.awaitInSync("orders", 3)
	// They lead again what they are preferred for: the controller knows their disks.
	w.Await("every partition under its preferred leader", func() bool {
		w.elect(0)
		return !slices.ContainsFunc(w.topic("orders").Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader != p.Replicas[0] })
	})
	w.produce("orders", 10)
	w.consume("orders", 110)
	w.sameDigests()
}

// createInVain asks a controller that has lost its followers for a topic, until it
// has the request in its store.
func (w *world) createInVain(n *harness.Node, name string) {
	w.T.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Address), kgo.RequestRetries(0))
	if err != nil {
		w.T.Fatal(err)
	}
	defer client.Close()
	store := filepath.Join(n.Data(), "__cluster_metadata-0", "raft.db")
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = client.Broker(int(w.id(n))).Request(ctx, creation(name, 1, 1)) // in vain
	}()
	w.Await("the request in "+store, func() bool {
		content, err := os.ReadFile(store)
		return err == nil && strings.Contains(string(content), name)
	})
	cancel()
	<-answered
}

func (w *world) id(n *harness.Node) int32 { return int32(slices.Index(w.Nodes, n) + 1) }

// elect asks for leaders: 0 the preferred ones, 1 out of what there is.
func (w *world) elect(kind int8) {
	w.T.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = kind, int32(w.Patience/time.Millisecond)
	harness.Ask[*kmsg.ElectLeadersResponse](w.World, req)
}

// upgradeKRaft makes the quorum a dynamic one.
func (w *world) upgradeKRaft() {
	w.T.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = "kraft.version", 1, 1
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	resp := harness.Ask[*kmsg.UpdateFeaturesResponse](w.World, req)
	if resp.ErrorCode != 0 {
		w.T.Fatalf("kraft.version is not upgraded: %+v", resp)
	}
}

// quorumVoters is the setting that the command tells.
func quorumVoters(t *testing.T, advice string) string {
	t.Helper()
	_, after, ok := strings.Cut(advice, "controller.quorum.voters=")
	value, _, _ := strings.Cut(after, ",")
	if !ok {
		t.Fatalf("no voters in:\n%s", advice)
	}
	return value
}

// keptAside checks that all files are still there, under their names or others.
func keptAside(t *testing.T, had map[string]string, dir string) {
	t.Helper()
	now := slices.Collect(maps.Values(files(t, dir)))
	for path, content := range had {
		if !slices.Contains(now, content) {
			t.Errorf("nothing has the content of %s any more", path)
		}
	}
}

// sameDigests compares the metadata of all nodes at the last offset that all have.
func (w *world) sameDigests() {
	w.T.Helper()
	w.Await("equal metadata", func() bool {
		var at string
		digests := map[string]bool{}
		for _, n := range w.All() {
			args := []string{"metadata", "digest", n.Data()}
			if at != "" {
				args = append(args, "--at", at)
			}
			out, _, ok := harness.Run(w.T, args...)
			if !ok {
				return false
			}
			if at == "" {
				at = strings.Fields(out)[1]
			}
			digests[out] = true
		}
		return len(digests) == 1
	})
}

// TestRecoverDynamic: of the three voters of a dynamic quorum two are lost for good.
// The third is its only voter, and others are added again.
func TestRecoverDynamic(t *testing.T) {
	w := newWorld(t, harness.StartDynamic(t, 3, 0, 1, "auto.create.topics.enable=false", "offsets.topic.replication.factor=1",
		"metadata.log.max.record.bytes.between.snapshots=4000"))
	w.create("orders", 3, 1)
	w.produce("orders", 10)
	w.killAll(w.Controllers...)
	survivor, again := w.Controllers[1], w.Controllers[0]
	done := w.klamm("metadata", "recover", "--yes", survivor.Data())
	says(t, done, "controller.quorum.bootstrap.servers="+survivor.Controller, "klamm quorum add", "as a broker alone")
	says(t, w.klamm("quorum", "status", survivor.Data()), "voters of a dynamic quorum: ")
	survivor.Restart()
	w.create("under-the-survivor", 1, 1)
	w.consume("orders", 10)
	says(t, w.klamm("quorum", "status", survivor.Data()), "voters of a dynamic quorum: 102 (")
	again.WipeDynamic()
	again.Restart()
	w.klamm("quorum", "add", "101", "--bootstrap-controller", survivor.Controller)
	says(t, w.klamm("quorum", "status", "--bootstrap-controller", survivor.Controller), "leader    102 ", "voter     101 ", "observer  1 ")
	w.create("with-another", 1, 1)
	w.Controllers = w.Controllers[:2]
	w.sameDigests()
	survivor.Kill()
	survivor.Restart()
	w.create("after-a-restart", 1, 1)

	// A broker's directory of a dynamic quorum says nothing of its own listener.
	w.killAll(w.All()...)
	heir := w.Nodes[0]
	if _, text, ok := harness.Run(t, "metadata", "recover", "--yes", heir.Data()); ok {
		t.Error("a directory is recovered that says nowhere where its controller listens")
	} else {
		says(t, text, "--listener NAME://HOST:PORT")
	}
	heir.Controller = survivor.Controller
	w.klamm("metadata", "recover", "--yes", "--listener", "CONTROLLER://"+heir.Controller, heir.Data())
	heir.Configure("process.roles=broker,controller", "listeners=PLAINTEXT://"+heir.Address+",CONTROLLER://"+heir.Controller,
		"controller.quorum.bootstrap.servers="+heir.Controller)
	heir.Restart()
	w.consume("orders", 10)
	w.create("under-a-broker", 1, 1)
	says(t, w.klamm("quorum", "status", "--bootstrap-controller", heir.Controller), "leader  1 ")
}

// TestRecoverUnderBrokers: of three controllers two are lost, then the last; the
// brokers run on at first, and one of them becomes the controller at last.
func TestRecoverUnderBrokers(t *testing.T) {
	c := harness.StartSplit(t, []harness.Kind{"", "", ""}, []harness.Kind{"", ""}, "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=2", "metadata.log.max.record.bytes.between.snapshots=4000", "broker.session.timeout.ms=3000")
	w := newWorld(t, c)
	w.create("orders", 3, 2)
	w.awaitInSync("orders", 2)
	w.produce("orders", 100)

	w.killAll(w.Controllers...)
	survivor := w.Controllers[0]
	voters := quorumVoters(t, w.klamm("metadata", "recover", "--yes", survivor.Data()))
	survivor.Configure("controller.quorum.voters=" + voters)
	survivor.Restart()
	w.create("under-the-survivor", 1, 2)
	w.awaitInSync("orders", 2)
	w.consume("orders", 100)
	w.Controllers = w.Controllers[:1]
	w.sameDigests()
	says(t, w.klamm("quorum", "status", "--bootstrap-controller", survivor.Controller), "controller 101 leads", "observer  1 ", "observer  2 ")

	// All controllers are gone.
	w.killAll(w.All()...)
	heir := w.Nodes[0]
	done := w.klamm("metadata", "recover", "--yes", w.Nodes[0].Data(), w.Nodes[1].Data())
	if strings.Contains(done, w.Nodes[1].Data()+" (node 2) is the only voter") {
		heir = w.Nodes[1]
	}
	heir.Controller = survivor.Controller
	voters = strings.Replace(quorumVoters(t, done), "HOST:PORT", heir.Controller, 1)
	for _, n := range w.Nodes {
		n.Configure("controller.quorum.voters=" + voters)
	}
	heir.Configure("process.roles=broker,controller", "listeners=PLAINTEXT://"+heir.Address+",CONTROLLER://"+heir.Controller)
	w.Controllers = nil
	w.Restart()
	w.create("under-a-broker", 1, 2)
	w.awaitInSync("orders", 2)
	w.consume("orders", 100)
	w.sameDigests()
}
