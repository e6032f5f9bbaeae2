package replica

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/klamm/klamm/metadata"
	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
	"github.com/klamm/klamm/storage"
	"github.com/klamm/klamm/storage/vfs"
)

// twoDirs is a node with directories 8 and 9.
func twoDirs(t *testing.T) *node {
	n := &node{t: t, fs: vfs.NewMem(), image: metadata.Empty()}
	var dirs []*storage.Dir
	for _, id := range []byte{8, 9} {
		path := fmt.Sprintf("/data%d", id)
		if err := storage.Format(n.fs, path, storage.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: protocol.UUID{id}}, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		dir, err := storage.OpenDir(n.fs, path, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	var err error
	if n.store, err = storage.OpenStore(context.Background(), n.fs, dirs, storage.DefaultStoreConfig(), zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	n.manager = NewManager(Config{
		Node: 1, Store: NewStore(n.store),
		TopicConfig: func(*metadata.Image, string) TopicConfig {
			return TopicConfig{Log: storage.DefaultLogConfig(), MinInSyncReplicas: 1}
		},
	}, zerolog.Nop())
	return n
}

func (n *node) in(id byte, dir protocol.UUID) []record.Record {
	return []record.Record{
		&record.Topic{Name: fmt.Sprint("t", id), TopicID: protocol.UUID{id}},
		&record.Partition{TopicID: protocol.UUID{id}, Leader: 1, Replicas: []protocol.NodeID{1}, ISR: []protocol.NodeID{1}, Directories: []protocol.UUID{dir}},
	}
}

func (n *node) works(id byte) bool {
	p, ok := n.manager.Partition(protocol.UUID{id}, 0)
	if !ok {
		n.t.Fatalf("no partition %d", id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role == roleLeader
}

// A directory that fails takes its partitions offline, whatever the metadata says
// next, and no others. What may be in it is not begun anew elsewhere.
func TestDirectoryFails(t *testing.T) {
	n := twoDirs(t)
	n.apply(&record.FeatureLevel{Name: feature.MetadataVersion, Level: int16(feature.Latest)})
	n.apply(n.in(1, protocol.UUID{8})...)
	n.apply(n.in(2, protocol.UUID{9})...)
	n.store.Dirs()[0].Fail(errors.New("input/output error"))
	n.manager.DirFailed()
	if n.works(1) || !n.works(2) {
		t.Fatalf("works: %t in the failed directory, %t in the other", n.works(1), n.works(2))
	}
	again := record.NewPartitionChange(protocol.UUID{1}, 0)
	again.Leader = 1
	n.apply(again)
	if n.works(1) {
		t.Error("a partition in a failed directory leads again")
	}
	p, _ := n.manager.Partition(protocol.UUID{1}, 0)
	if _, err := p.AppendAsLeader(nil, false, storage.AppendOptions{}); protocol.CodeOf(err) != protocol.ErrKafkaStorageError {
		t.Errorf("an append is answered with %v", err)
	}
	for id, dir := range map[byte]protocol.UUID{3: protocol.MigratingDir, 4: protocol.LostDir, 5: {77}, 6: {8}} {
		n.apply(n.in(id, dir)...)
		if n.works(id) {
			t.Errorf("a replica was begun anew that may be in the failed directory (%v)", dir)
		}
	}
	n.apply(n.in(7, protocol.UnassignedDir)...)
	if l, ok := n.store.Get(protocol.TopicPartition{Topic: "t7"}); !n.works(7) || !ok || l.Dir() != n.store.Dirs()[1] {
		t.Error("a new replica is not in the directory that is left")
	}
	n.apply(&record.RemoveTopic{TopicID: protocol.UUID{1}})
	if err := n.store.Close(1, n.manager.HighWatermarks()); err != nil {
		t.Errorf("a stop fails for a directory that has failed before: %v", err)
	}
}

// The controller has to know where a replica is that the metadata have nowhere, or in a
// directory that is not here, and of no other.
func TestDirectoriesAreCompared(t *testing.T) {
	n := twoDirs(t)
	n.apply(&record.FeatureLevel{Name: feature.MetadataVersion, Level: int16(feature.Latest)})
	n.apply(n.in(1, protocol.UUID{8})...)
	if told := n.manager.assignments.take(); len(told) != 0 {
		t.Errorf("told of %v, which the metadata have right", told)
	}
	for id, named := range map[byte]protocol.UUID{2: protocol.UnassignedDir, 3: {77}} {
		n.apply(n.in(id, named)...)
		l, ok := n.store.Get(protocol.TopicPartition{Topic: fmt.Sprint("t", id)})
		if !ok {
			t.Fatal("there is no log")
		}
		told := n.manager.assignments.take()
		if dir := told[partitionKey{protocol.UUID{id}, 0}]; len(told) != 1 || dir != l.Dir().ID() {
			t.Errorf("named %v: told of %v, and it is in %v", named, told, l.Dir().ID())
		}
	}
}
