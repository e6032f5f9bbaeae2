package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// node is broker 1 with one log directory in memory.
type node struct {
	t       *testing.T
	fs      vfs.FS
	store   *storage.Store
	manager *Manager
	image   *metadata.Image
	configs []string // topics that were asked for
}

func newNode(t *testing.T) *node {
	n := &node{t: t, fs: vfs.NewMem(), image: metadata.Empty()}
	meta := storage.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{9}}
	if err := storage.Format(n.fs, "/data", meta, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	n.start()
	return n
}

// start opens the directory and begins without metadata.
func (n *node) start() {
	n.t.Helper()
	dir, err := storage.OpenDir(n.fs, "/data", time.Unix(0, 0))
	if err != nil {
		n.t.Fatal(err)
	}
	n.store, err = storage.OpenStore(context.Background(), n.fs, []*storage.Dir{dir}, storage.DefaultStoreConfig(), zerolog.Nop())
	if err != nil {
		n.t.Fatal(err)
	}
	n.manager = NewManager(Config{
		Node: 1, Store: NewStore(n.store),
		TopicConfig: func(img *metadata.Image, topic string) TopicConfig {
			n.configs = append(n.configs, topic)
			c := TopicConfig{Log: storage.DefaultLogConfig(), MinInSyncReplicas: 1}
			if _, ok := img.Config(metadata.Resource{Type: metadata.ResourceTopic, Name: topic}, "min.insync.replicas"); ok {
				c.MinInSyncReplicas = 2
			}
			return c
		},
	}, zerolog.Nop())
}

// restart stops cleanly, starts, and gives the manager all there is as one delta.
func (n *node) restart(img *metadata.Image) {
	n.t.Helper()
	if err := n.store.Close(1, n.manager.HighWatermarks()); err != nil {
		n.t.Fatal(err)
	}
	for _, d := range n.store.Dirs() {
		if err := d.Close(); err != nil {
			n.t.Fatal(err)
		}
	}
	n.start()
	n.image = metadata.Empty()
	delta := metadata.NewDelta(n.image)
	for r := range img.Records() {
		if err := delta.Replay(r); err != nil {
			n.t.Fatal(err)
		}
	}
	n.image = delta.Apply(img.Offset(), 1, 0)
	n.manager.Apply(delta, n.image)
}

func (n *node) apply(records ...record.Record) {
	n.t.Helper()
	delta := metadata.NewDelta(n.image)
	for _, r := range records {
		if err := delta.Replay(r); err != nil {
			n.t.Fatal(err)
		}
	}
	n.image = delta.Apply(n.image.Offset()+1, 1, 0)
	n.manager.Apply(delta, n.image)
}

// topic is the records of a topic of one partition per leader.
func topicRecords(name string, id byte, leaders ...protocol.NodeID) []record.Record {
	out := []record.Record{&record.Topic{Name: name, TopicID: protocol.UUID{id}}}
	for i, leader := range leaders {
		out = append(out, &record.Partition{
			TopicID: protocol.UUID{id}, PartitionID: int32(i), Leader: leader,
			Replicas: []protocol.NodeID{1, 2}, ISR: []protocol.NodeID{1},
		})
	}
	return out
}

// roles is what the manager has, and the directories.
func (n *node) roles() string {
	n.t.Helper()
	var out []string
	for p := range n.manager.Partitions() {
		p.mu.Lock()
		role := map[role]string{roleNone: "offline", roleLeader: "leader", roleFollower: "follower", roleGone: "gone"}[p.role]
		out = append(out, fmt.Sprintf("%s/%d %s epoch %d hw %d", p.tp, p.topicID[0], role, p.leaderEpoch, p.highWatermark))
		p.mu.Unlock()
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (n *node) wantRoles(want ...string) {
	n.t.Helper()
	if got := n.roles(); got != strings.Join(want, "\n") {
		n.t.Errorf("roles:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// dirs are the replicas' directories, without the unique part of retired ones.
func (n *node) dirs() string {
	n.t.Helper()
	entries, err := n.fs.ReadDir("/data")
	if err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir {
			continue
		}
		name := e.Name
		if dot := strings.LastIndexByte(name, '.'); dot > 0 {
			name = name[:dot] + name[strings.LastIndexByte(name, '-'):]
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (n *node) wantDirs(want string) {
	n.t.Helper()
	if got := n.dirs(); got != want {
		n.t.Errorf("directories %q, want %q", got, want)
	}
}

func (n *node) appendTo(id byte, count int) {
	n.t.Helper()
	p, ok := n.manager.Partition(protocol.UUID{id}, 0)
	if !ok {
		n.t.Fatal("no partition")
	}
	if _, err := p.AppendAsLeader(records(count), true, storage.AppendOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func TestApply(t *testing.T) {
	n := newNode(t)
	n.apply(topicRecords("a", 1, 1, 2, -1)...)
	n.wantRoles("a-0/1 leader epoch 0 hw 0", "a-1/1 follower epoch 0 hw 0", "a-2/1 follower epoch 0 hw 0")
	n.wantDirs("a-0 a-1 a-2")
	n.appendTo(1, 3)

	// Leadership moves away and comes back.
	n.apply(&record.PartitionChange{TopicID: protocol.UUID{1}, Leader: 2, LeaderRecovery: record.RecoveryUnchanged})
	n.wantRoles("a-0/1 follower epoch 1 hw 3", "a-1/1 follower epoch 0 hw 0", "a-2/1 follower epoch 0 hw 0")
	n.apply(&record.PartitionChange{TopicID: protocol.UUID{1}, Leader: 1, LeaderRecovery: record.RecoveryUnchanged})
	n.wantRoles("a-0/1 leader epoch 2 hw 3", "a-1/1 follower epoch 0 hw 0", "a-2/1 follower epoch 0 hw 0")
	log, _ := n.store.Get(protocol.TopicPartition{Topic: "a"})
	if epoch, end := log.EndOffsetFor(0); epoch != 0 || end != 3 {
		t.Errorf("epoch 0 ends at %d (%d), want 3", end, epoch)
	}

	// A replica is moved to another broker.
	n.apply(&record.PartitionChange{
		TopicID: protocol.UUID{1}, PartitionID: 1, Replicas: []protocol.NodeID{2, 3},
		Leader: record.LeaderUnchanged, LeaderRecovery: record.RecoveryUnchanged,
	})
	n.wantRoles("a-0/1 leader epoch 2 hw 3", "a-2/1 follower epoch 0 hw 0")
	n.wantDirs("a-0 a-1-delete a-2")
}

// TestRecreatedInOneDelta: a topic is deleted and created under the same name
// between two images. The new one begins empty (B107).
func TestRecreatedInOneDelta(t *testing.T) {
	n := newNode(t)
	n.apply(topicRecords("a", 1, 1)...)
	n.appendTo(1, 3)
	old, _ := n.manager.Partition(protocol.UUID{1}, 0)
	n.apply(append([]record.Record{&record.RemoveTopic{TopicID: protocol.UUID{1}}}, topicRecords("a", 2, 1)...)...)
	n.wantRoles("a-0/2 leader epoch 0 hw 0")
	n.wantDirs("a-0 a-0-delete")
	if _, err := old.AppendAsLeader(records(1), false, storage.AppendOptions{}); protocol.CodeOf(err) != protocol.ErrNotLeaderForPartition {
		t.Errorf("append to the deleted one: %v", err)
	}
	if _, ok := n.manager.Partition(protocol.UUID{1}, 0); ok {
		t.Error("the deleted one is still found")
	}
}

// TestRestart: high watermarks and records are there again, and what was deleted
// or moved away meanwhile is set aside, told by topic id.
func TestRestart(t *testing.T) {
	n := newNode(t)
	for i, name := range []string{"kept", "deleted", "recreated"} {
		n.apply(topicRecords(name, byte(i+1), 1)...)
		n.appendTo(byte(i+1), i+1)
	}
	n.wantDirs("deleted-0 kept-0 recreated-0")
	// What the metadata says when the broker is back.
	delta := metadata.NewDelta(n.image)
	for _, r := range append([]record.Record{
		&record.RemoveTopic{TopicID: protocol.UUID{2}}, &record.RemoveTopic{TopicID: protocol.UUID{3}},
	}, topicRecords("recreated", 4, 1)...) {
		if err := delta.Replay(r); err != nil {
			t.Fatal(err)
		}
	}
	n.restart(delta.Apply(10, 1, 0))
	n.wantRoles("kept-0/1 leader epoch 0 hw 1", "recreated-0/4 leader epoch 0 hw 0")
	n.wantDirs("deleted-0-stray kept-0 recreated-0 recreated-0-stray")
}

func TestReconfigure(t *testing.T) {
	n := newNode(t)
	n.apply(topicRecords("a", 1, 1, 1)...)
	n.apply(topicRecords("b", 2, 1)...)
	if want := []string{"a", "b"}; !slices.Equal(n.configs, want) {
		t.Errorf("asked for the configuration of %v, want %v: once a topic", n.configs, want)
	}
	p, _ := n.manager.Partition(protocol.UUID{1}, 1)
	other, _ := n.manager.Partition(protocol.UUID{2}, 0)
	value := "2"
	n.apply(&record.Config{ResourceType: metadata.ResourceTopic, ResourceName: "a", Name: "min.insync.replicas", Value: &value})
	if p.Config().MinInSyncReplicas != 2 || other.Config().MinInSyncReplicas != 1 {
		t.Errorf("min.insync.replicas %d and %d, want 2 and 1", p.Config().MinInSyncReplicas, other.Config().MinInSyncReplicas)
	}
	n.configs = nil
	n.apply(&record.Config{ResourceType: metadata.ResourceBroker, ResourceName: "", Name: "log.segment.bytes", Value: &value})
	slices.Sort(n.configs)
	if want := []string{"a", "b"}; !slices.Equal(n.configs, want) {
		t.Errorf("after a change of a default: asked for %v, want %v", n.configs, want)
	}
}

// TestApplyMany gives many partitions their roles at a time; run it with -race.
func TestApplyMany(t *testing.T) {
	n := newNode(t)
	var leaders []protocol.NodeID
	for i := range 200 {
		leaders = append(leaders, protocol.NodeID(1+i%2))
	}
	n.apply(topicRecords("a", 1, leaders...)...)
	leading := 0
	for p := range n.manager.Partitions() {
		if p.known().leaderEpoch != 0 {
			t.Errorf("%s has no role", p.tp)
		}
		p.mu.Lock()
		if p.role == roleLeader {
			leading++
		}
		p.mu.Unlock()
	}
	if leading != 100 {
		t.Errorf("leads %d, want 100", leading)
	}
	n.apply(&record.RemoveTopic{TopicID: protocol.UUID{1}})
	n.wantRoles()
}
